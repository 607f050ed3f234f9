# Source distributions of other projects: they carry tests, which tests/conformance runs against Penstock. They
# are fetched into build/conformance and never committed; constraints.txt pins their versions.

conformance=build/conformance

# fetch_sdist NAME: unpacks the pinned source distribution into build/conformance/NAME-VERSION, unless it is
# there. Without a network its tests are skipped, which they say themselves, so set-up goes on.
fetch_sdist() {
    local name=$1 pin unpacked folder
    pin=$(grep -m 1 "^$name==" constraints.txt) || fail "constraints.txt does not pin $name, whose tests are to run"
    unpacked=$conformance/$name-${pin#*==}
    if [ -d "$unpacked" ]; then
        return
    fi
    say "$unpacked: fetching $name's own tests"
    mkdir -p "$conformance"
    folder=$(mktemp -d "$conformance/fetching-XXXXXX")
    if "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$name" \
        --dest "$folder" "$pin" >"$(log_file sdist)" 2>&1 &&
        tar -xzf "$folder"/*.tar.gz -C "$folder" && mv "$folder"/*/ "$unpacked"; then
        rm -rf "$folder"
    else
        rm -rf "$folder"
        say "$name's source distribution could not be fetched ($(log_file sdist)): its tests will be skipped"
    fi
}
