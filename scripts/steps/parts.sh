# Runs the parts of a test run, one after the other or beside each other, and tells at the end what each took, the
# last line of its runner, what was skipped and why, and what was absent. Output goes to build/test-logs as well.

part_logs=build/test-logs
part_names=()
declare -A part_jobs=()
absent=()
rm -rf "$part_logs"
mkdir -p "$part_logs"

log_of() { printf '%s/%s' "$part_logs" "$(tr -c '[:alnum:].\n' '-' <<<"$1")"; }

# timed NAME COMMAND...: COMMAND with its output in the log, and its status, seconds and CPU seconds beside it.
timed() {
    local log status=0 TIMEFORMAT='%0R %U %S'
    log=$(log_of "$1")
    shift
    { time "$@" >"$log.log" 2>&1 || status=$?; } 2>"$log.time"
    printf '%s\n' "$status" >"$log.status"
    return "$status"
}

# Beside `timed`, which has the log open: it is appended to.
shown() { "$@" 2>&1 | tee -a "$log.log" >&3; }

# part NAME COMMAND...: runs it and shows its output meanwhile.
part() {
    part_names+=("$1")
    timed "$1" shown "${@:2}" 3>&1
}

# part_beside COUNT NAME COMMAND...: starts it once fewer than COUNT of its kind run; its output is shown when it ends.
part_beside() {
    local count=$1 name=$2
    shift
    while [ "${#part_jobs[@]}" -ge "$count" ]; do wait_for_one; done
    part_names+=("$name")
    # Without job control a shell has what runs in the background ignore SIGINT, which the tests send.
    set -m
    trap 'kill -- "${!part_jobs[@]/#/-}" 2>/dev/null' EXIT
    timed "$@" &
    set +m
    part_jobs[$!]=$name
}

wait_for_one() {
    local job
    wait -n -p job "${!part_jobs[@]}"
    cat "$(log_of "${part_jobs[$job]}").log"
    unset "part_jobs[$job]"
}

wait_for_parts() {
    while [ "${#part_jobs[@]}" -gt 0 ]; do wait_for_one; done
    trap - EXIT
}

status_of() { cat "$(log_of "$1").status" 2>/dev/null || echo "not ended"; }

parts_passed() {
    local name
    for name in "${part_names[@]}"; do [ "$(status_of "$name")" = 0 ] || return 1; done
}

# What pytest and GoogleTest say of skipped tests, each reason once.
skips() {
    {
        sed -nE 's/^SKIPPED \[[0-9]+\] //p' "$part_logs"/*.log
        cat build/*/Testing/Temporary/LastTest.log 2>/dev/null | awk '/: Skipped$/ { getline; print }'
    } | sed -E 's/:[0-9]+: /: /' | sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)/    \2  (\1 x)/'
}

finish() {
    local name log
    say "skipped:"
    skips
    for name in "${absent[@]}"; do say "not tested: $name is not on this machine and could not be fetched"; done
    for name in "${part_names[@]}"; do
        log=$(log_of "$name")
        read -r wall user system < <(tail -n 1 "$log.time")
        say "$name: $wall s, $(awk "BEGIN { printf \"%d\", $user + $system }") s of CPU$([ "$(status_of "$name")" = 0 ] || echo ", FAILED")"
        # ctest and pytest close with one line each; an error of the scripts stands behind it.
        grep -E '^(penstock: error: .*|[0-9]+% tests passed.*|=*.*[0-9]+ (passed|failed|errors?).* in [0-9.]+s.*)$' "$log.log" | tail -n 1
    done
    if parts_passed; then
        say "all tests passed"
        exit 0
    fi
    fail "tests failed; the logs are in $part_logs"
}
