# Runs the parts of a test run in lanes. Reports at the end the time of each part, the last line of its runner, skipped
# tests with their reasons, and what was absent. Output also goes to build/test-logs, a folder a script.

part_logs=build/test-logs/$(basename "$0")
part_names=()
parts_without_time=()
declare -A part_jobs=() part_lane=() part_command=() part_again=() unsteady_parts=() lane_width=()
absent=()
rm -rf "$part_logs"
mkdir -p "$part_logs"

log_of() { printf '%s/%s' "$part_logs" "$(tr -c '[:alnum:].\n' '-' <<<"$1")"; }

# timed NAME COMMAND...: runs COMMAND with its output in the log; records its status, seconds and CPU seconds.
timed() {
    local log status=0 TIMEFORMAT='%0R %U %S'
    log=$(log_of "$1")
    printf '%s\n' "$1" >"$log.name"
    shift
    { time "$@" >"$log.log" 2>&1 || status=$?; } 2>"$log.time"
    printf '%s\n' "$status" >"$log.status"
    return "$status"
}

# lane NAME COUNT: of the parts added to it, COUNT run at a time, in the order in which they were added.
lane() { lane_width[$1]=$2; }

# part LANE NAME COMMAND...: adds a part. Nothing runs before run_parts.
part() {
    part_names+=("$2")
    part_lane[$2]=$1
    part_command[$2]=$(printf '%q ' "${@:3}")
}

# again NAME COMMAND...: runs the failed tests of a part, and no others.
again() { part_again[$1]=$(printf '%q ' "${@:2}"); }

# Runs the parts of all lanes beside each other, so that no core is idle while tests wait. Shows each part's output at
# its end. After PARTS_SECONDS, if that is set, the parts that run are ended and no further one begins. Such a part has
# not failed; the report names it.
run_parts() {
    local name waiting=("${part_names[@]}") later
    part_timer=
    if [ -n "${PARTS_SECONDS:-}" ]; then
        sleep "$((PARTS_SECONDS > 0 ? PARTS_SECONDS : 0))" &
        part_timer=$!
    fi
    trap kill_parts EXIT
    while [ $((${#waiting[@]} + ${#part_jobs[@]})) -gt 0 ]; do
        later=()
        for name in "${waiting[@]}"; do
            if has_room "${part_lane[$name]}"; then start "$name"; else later+=("$name"); fi
        done
        waiting=("${later[@]}")
        if ! wait_for_one; then
            parts_without_time=("${part_jobs[@]}" "${waiting[@]}")
            kill_parts
            wait
            break
        fi
    done
    [ -z "$part_timer" ] || kill "$part_timer" 2>/dev/null
    run_failed_again
    trap - EXIT
}

# A test that fails beside twelve other processes may be right, and the machine too slow for it. So the failed tests of a
# part run once more, with nothing beside them. A part of which they pass then is unsteady: it does not fail the run, but
# the report names its tests, because each of them is a defect, of the test or of what it tests. A sanitizer's finding
# and a crash of the interpreter are failures, however often they occur.
run_failed_again() {
    local name log
    while read -r name; do
        [ -n "${part_again[$name]:-}" ] || continue
        log=$(log_of "$name")
        # Without a summary of its runner the part ended before its tests did, for example in the build.
        grep -qE '[0-9]+ (failed|errors?)|tests failed out of' <<<"$(summary_of "$log")" || continue
        ! grep -qE "sanitizers found|Sanitizer: |node down|worker '[a-z0-9]+' crashed" "$log.log" || continue
        say "once more, alone: the failed tests of $name"
        set -m
        timed "$name, again" eval "${part_again[$name]}" &
        set +m
        part_jobs[$!]="$name, again"
        wait $! && unsteady_parts[$name]=yes
        part_jobs=()
        cat "$(log_of "$name, again").log"
    done < <(failed_parts)
}

has_room() {
    local name running=0
    for name in "${part_jobs[@]}"; do
        [ "${part_lane[$name]}" != "$1" ] || running=$((running + 1))
    done
    [ "$running" -lt "${lane_width[$1]}" ]
}

start() {
    say "started: $1"
    # Without job control, a shell starts background commands with SIGINT ignored, which the tests send.
    set -m
    timed "$1" eval "${part_command[$1]}" &
    set +m
    part_jobs[$!]=$1
}

# Each part is a process group.
kill_parts() {
    local groups=("${!part_jobs[@]}")
    kill -- "${groups[@]/#/-}" $part_timer 2>/dev/null
}

# Fails if the time is up.
wait_for_one() {
    local job
    wait -n -p job "${!part_jobs[@]}" $part_timer
    [ "$job" != "$part_timer" ] || return 1
    cat "$(log_of "${part_jobs[$job]}").log"
    unset "part_jobs[$job]"
}

status_of() { cat "$(log_of "$1").status" 2>/dev/null || echo "not ended"; }

failed_parts() {
    local name
    for name in "${part_names[@]}"; do
        [ "$(status_of "$name")" = 0 ] || [ -n "${unsteady_parts[$name]:-}" ] || had_no_time "$name" ||
            printf '%s\n' "$name"
    done
}

verdict_of() {
    if [ -n "${unsteady_parts[$1]:-}" ]; then
        echo ", UNSTEADY"
    elif [ "$(status_of "$1")" != 0 ]; then
        echo ", FAILED"
    fi
}

had_no_time() {
    local name
    for name in "${parts_without_time[@]}"; do [ "$name" != "$1" ] || return 0; done
    return 1
}

parts_passed() { [ -z "$(failed_parts)" ]; }

# The skipped tests of pytest and GoogleTest, each reason once.
skips() {
    {
        sed -nE 's/^SKIPPED \[[0-9]+\] //p' "$part_logs"/*.log
        cat build/*/Testing/Temporary/LastTest.log 2>/dev/null | awk '/: Skipped$/ { getline; print }'
    } | sed -E 's/:[0-9]+: /: /' | sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)/    \2  (\1 x)/'
}

# failures LOG: what ctest printed of each failed test, at most 40 lines of each; of pytest, the lines of the errors and
# the names; of another program, which has no such lines, its last 40. A continuous integration machine may keep only the end of the output.
failures() {
    awk '
        /^ *([0-9]+\/[0-9]+ Test +#| +Start +)[0-9]+:/ { lines = /\*\*\*/ ? 40 : 0 }
        lines-- > 0
        lines < 0 { lines = 0 }
    ' "$1"
    grep -E '^E   ' "$1" | head -n 40
    grep -E '^(FAILED|ERROR) ' "$1" || grep -qE 'tests failed out of' "$1" || tail -n 40 "$1"
}

# The wall and the CPU seconds of a part.
times_of() { tail -n 1 "$1.time" | awk '{ printf "%d %d\n", $1, $2 + $3 }'; }

# ctest, pytest and lint end with one summary line each; an error of the scripts follows it.
summary_of() {
    grep -E '^(penstock: (error|lint): .*|[0-9]+% tests passed.*|=*.*[0-9]+ (passed|failed|errors?).* in [0-9.]+s.*)$' "$1.log" |
        tail -n 1
}

# write_times FILE FOLDER...: a table of the parts whose logs are in the folders, the longest first.
write_times() {
    local file=$1 log name wall cpu
    shift
    {
        printf '# Where the time of the gate goes\n\n'
        printf 'Written by each run of `make gate`, from its own parts and from those of the last `make test`. Parts run beside\n'
        printf 'each other on %d cores, so the sum of their wall times is more than the time of the run.\n\n' "$(nproc)"
        printf '| part | wall s | CPU s |\n|---|---:|---:|\n'
        for log in $(printf '%s/*.time ' "$@"); do
            log=${log%.time}
            [ -s "$log.time" ] || continue
            read -r wall cpu < <(times_of "$log")
            name=$(cat "$log.name")
            printf '| %s | %s | %s |\n' "$name" "$wall" "$cpu"
        done | sort -t '|' -k3,3nr
    } >"$file"
}

# What the run has to say, in this order: the end is what a reader of the last lines sees.
report() {
    local name log passed=()
    say "skipped:"
    skips
    for name in "${absent[@]}"; do say "not tested: $name is not on this machine and could not be downloaded"; done
    for name in "${part_names[@]}"; do
        if had_no_time "$name"; then
            say "$name: not run to its end, for lack of time"
            continue
        fi
        passed+=("$name")
        log=$(log_of "$name")
        read -r wall cpu < <(times_of "$log")
        say "$name: $wall s, $cpu s of CPU$(verdict_of "$name")"
        summary_of "$log"
    done
    for name in "${!unsteady_parts[@]}"; do
        say "unsteady in $name: failed beside the other parts, passed alone:"
        failures "$(log_of "$name").log"
    done
    while read -r name; do
        [ -n "$name" ] || continue
        say "failures of $name:"
        failures "$(log_of "$name").log"
    done < <(failed_parts)
    say "all parts: $SECONDS s"
    ! parts_passed || say "all passed: $(printf '%s, ' "${passed[@]}" | sed 's/, $//')"
}

finish() {
    report | tee "$part_logs/report.txt"
    ! parts_passed || exit 0
    fail "failed: $(failed_parts | paste -sd';' | sed 's/;/; /g'); the logs are in $part_logs"
}
