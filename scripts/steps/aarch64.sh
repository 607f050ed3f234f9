# The wheel for aarch64 and CPython 3.11, for Raspberry Pis: cross-compiled, then tried and tested on the emulated machine
# of scripts/steps/aarch64_machine.sh.

# The tests that run there: floor 1 in C++, then these folders.
emulated_tests='
tests/python/loop
tests/python/serial
tests/python/alicat
tests/python/record
'

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
    floor_1_emulated
    tests_emulated
}

# Into packages for the emulated CPython, with this machine's pip, which is ten times faster than the emulated one.
# for_emulated ACTION [ARGUMENT...]
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
floor_1_emulated() {
    local build=$aarch64/cpp log settings setting options=()
    log=$(log_file aarch64-cpp)
    say "floor 1, aarch64: C++ tests"
    while read -r setting; do options+=("-D$setting"); done < <(zig_settings aarch64)
    cmake -S "$work/source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_FLAGS=-O2 -stdlib=libc++" "${options[@]}" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="$root/scripts/emulated" -DPENSTOCK_BUILD_PYTHON=OFF \
        -DPENSTOCK_WARNINGS_AS_ERRORS=OFF >"$log" 2>&1 &&
        cmake --build "$build" --parallel "$(nproc)" >>"$log" 2>&1 ||
        fail "the C++ tests could not be built for aarch64; the output is in $log"
    ctest --test-dir "$build" --parallel "$(nproc)" --no-tests=error >>"$log" 2>&1 || {
        grep -A 200 "tests passed" "$log"
        fail "C++ tests fail on aarch64; the output is in $log"
    }
    grep "tests passed" "$log"
}

# The tests import the installed package. Those that QEMU cannot run are skipped with the reason (tests/emulated.py).
tests_emulated() {
    local packages=$aarch64/root/venv/lib/python3.11/site-packages folder
    "$venv/bin/python" -I scripts/requirements.py list emulated-test >"$aarch64/requirements.txt"
    for_emulated install --upgrade --target "$packages" --requirement "$aarch64/requirements.txt" ||
        fail "what the tests need could not be installed for aarch64"
    for folder in $emulated_tests; do
        say "CPython 3.11, aarch64: $folder"
        scripts/emulated /venv/bin/python -m pytest -q -o pythonpath=. -p no:cacheprovider -p tests.only_penstock -p tests.emulated \
            "$folder" || failed+=("$folder")
    done
}
