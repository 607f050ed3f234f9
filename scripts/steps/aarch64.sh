# The wheel for aarch64 and CPython 3.11, for Raspberry Pis: cross-compiled, then tried and tested on the emulated machine
# of scripts/steps/aarch64_machine.sh.

# The folders of tests/python whose tests run there, the longest first.
emulated_tests='loop serial alicat record'

# aarch64_wheel: where the machine or emulation is not available, the list of what is absent says so.
aarch64_wheel() {
    local why
    if [ ! -x "$aarch64/qemu-aarch64" ]; then
        absent+=("no wheel for aarch64: Debian's packages for arm64 could not be fetched ('scripts/setup dist' says why)")
        return
    fi
    build_wheel 3.11 aarch64
    if ! why=$(scripts/emulated true 2>&1); then
        absent+=("the wheel for aarch64 was not tried: ${why:-emulation fails} (it needs user namespaces, and Linux 6.7 or newer)")
        return
    fi
    try_emulated
    rm -rf "$aarch64/results"
    mkdir -p "$aarch64/results"
    test_floor_1_emulated
    test_python_emulated
    report_emulated
}

# for_emulated ACTION [ARGUMENT...]: this machine's pip with packages for the emulated CPython; the emulated pip takes ten
# times longer.
for_emulated() {
    "$root/$venv/bin/python" -m pip "$1" --quiet --disable-pip-version-check --constraint constraints.txt \
        --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --abi abi3 --abi none \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 "${@:2}"
}

# As a user would: a new virtual environment, and the emulated pip, which chooses the wheel by its tags. io_uring is left
# out, because QEMU has none.
try_emulated() {
    local machine=$aarch64/root wheels=$aarch64/wheels wheel
    wheel=$(wheel_of 3.11 aarch64)
    say "CPython 3.11, aarch64: trying the wheel in $("$aarch64/qemu-aarch64" --version | head -n 1)"
    rm -rf "$machine/venv" "$machine/trial" "$machine/tmp" "$wheels"
    mkdir -p "$machine/trial" "$machine/tmp"
    "$venv/bin/python" -I scripts/requirements.py list >"$aarch64/requirements.txt"
    for_emulated download --dest "$wheels" --requirement "$aarch64/requirements.txt" ||
        fail "what Penstock needs could not be downloaded for aarch64"
    scripts/emulated python3.11 -m venv /venv &&
        scripts/emulated /venv/bin/pip install --quiet --no-index --find-links "$wheels" --only-binary :all: "$wheel" ||
        fail "the wheel for aarch64 could not be installed"
    scripts/emulated env --chdir=/trial /venv/bin/python -I "$root/scripts/packaging/try_installed.py" --without uring ||
        fail "the wheel for aarch64 does not work"
}

# Floor 1 and the codecs, compiled as in the wheel. CTest runs each case through the emulator.
test_floor_1_emulated() {
    local build=$aarch64/cpp log setting options=()
    log=$(log_file aarch64-cpp)
    say "aarch64: C++ tests of floor 1 and of the codecs"
    while read -r setting; do options+=("-D$setting"); done < <(zig_settings aarch64)
    # The option for libc++ makes the tests compile GoogleTest with it; Zig's compiler ignores it.
    cmake -S "$work/source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None \
        "-DCMAKE_CXX_FLAGS=-O2 -stdlib=libc++ -Wno-unused-command-line-argument" "${options[@]}" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="$root/scripts/emulated" -DPENSTOCK_BUILD_PYTHON=OFF \
        -DPENSTOCK_WARNINGS_AS_ERRORS=OFF >"$log" 2>&1 &&
        cmake --build "$build" --parallel "$(nproc)" >>"$log" 2>&1 ||
        fail "the C++ tests could not be built for aarch64; the output is in $log"
    ctest --test-dir "$build" --parallel "$(nproc)" --timeout 600 --no-tests=error \
        --output-junit "$root/$aarch64/results/floor_1.xml" >>"$log" 2>&1 || true
}

# The tests import the installed package. Those that QEMU cannot run are skipped with the reason (tests/emulated.py).
test_python_emulated() {
    local packages=$aarch64/root/venv/lib/python3.11/site-packages
    "$venv/bin/python" -I scripts/requirements.py list emulated-test >"$aarch64/requirements.txt"
    for_emulated install --upgrade --target "$packages" --requirement "$aarch64/requirements.txt" ||
        fail "what the tests need could not be installed for aarch64"
    say "aarch64: Python tests of" $emulated_tests
    printf '%s\n' $emulated_tests | xargs -P "$(nproc)" -I '{}' sh -c \
        'scripts/emulated /venv/bin/python -m pytest -o pythonpath=. -o timeout=600 -p no:cacheprovider -p tests.only_penstock \
            -p tests.emulated --junitxml="$1/results/{}.xml" "tests/python/{}" >"$1/results/{}.log" 2>&1 || true' sh "$aarch64"
}

report_emulated() {
    local name versions
    for name in floor_1 $emulated_tests; do
        [ -e "$aarch64/results/$name.xml" ] || fail "the tests of $name did not end; see $aarch64/results and $(log_file aarch64-cpp)"
    done
    versions="$("$aarch64/qemu-aarch64" --version | head -n 1), $(scripts/emulated /venv/bin/python -VV | cut -d ' ' -f 1-2)"
    "$venv/bin/python" -I scripts/packaging/emulated_results.py "$aarch64/results" "$aarch64/results/aarch64.md" \
        "$versions, $(date -u +%F)." ||
        fail "tests fail on the wheel for aarch64; the output is in $aarch64/results and $(log_file aarch64-cpp)"
}
