# The parts that scripts/check, scripts/test and scripts/gate are made of.

# Most tests wait for a time-out, a child process or a port, so there are more workers than cores. A worker has a file's
# tests at once, as far as there are enough files, so that fixtures of a module are made once.
workers() { printf '%d' $((3 * $(nproc))); }

cpp_tests() {
    local preset=$1
    say "C++ tests: $preset"
    cmake --preset "$preset" >/dev/null &&
        nice -n 10 cmake --build --preset "$preset" --parallel "$(nproc)" &&
        PENSTOCK_REQUIRE_LOOPS=1 ctest --preset "$preset" --parallel "$(nproc)"
}

# cpp_part PRESET: adds the C++ tests of a preset.
cpp_part() {
    part cpp "C++ $1" cpp_tests "$1"
    again "C++ $1" env PENSTOCK_REQUIRE_LOOPS=1 ctest --preset "$1" --rerun-failed
}

# programs_of AREA: the test programs of a part of the coroutine library, as tests/cpp/coro/CMakeLists.txt names them.
programs_of() {
    case $1 in
    coroutine)
        echo coroutine_test transfer_by_loop_test
        basename --suffix=.cpp tests/cpp/coro/standalone/*_test.cpp
        ;;
    http | tls | http_client) echo "$1_test" ;;
    whole_library) echo documentation_test whole_library_test ;;
    esac
}

# program_tests PROGRAM...: test programs of the coroutine library, and no others. Under ASan, because 'make test' builds
# the same files: whoever has run it finds them built. What is not installed is not tested against.
program_tests() {
    cmake --preset asan >/dev/null &&
        nice -n 10 cmake --build --preset asan --parallel "$(nproc)" --target "$@" &&
        ctest --preset asan --parallel "$(workers)" -R "^($(paste -sd'|' <(printf '%s\n' "$@")))\."
}

# python_tests VENV [PYTEST ARGUMENT...]
python_tests() {
    local python=$1/bin/python cache="cache_dir=build/pytest-cache-${1##*/}"
    shift
    say "Python tests: $("$python" -I -c 'import platform; print("CPython", platform.python_version())')"
    # A missing loop or ring means a broken build here, not a skip.
    PENSTOCK_REQUIRE_LOOPS=1 "$python" -m pytest -o "$cache" -q -n "$(workers)" --dist worksteal \
        -p tests.private_terminals "$@"
}

# quick_python_tests PATH...: on Penstock's loop, with whatever peers are installed.
quick_python_tests() {
    .venv/bin/python -m pytest -o cache_dir=build/pytest-cache-check -q -n "$(workers)" --dist worksteal \
        -p tests.private_terminals -p tests.only_penstock -p tests.file_times -m "not slow" "$@"
}

# pytest's options for the failed tests of the last run, in one process.
last_failed=(-n 0 --last-failed --last-failed-no-failures none)

extension_part() {
    part python "extension under ASan+UBSan" scripts/test-extension-asan
    again "extension under ASan+UBSan" scripts/test-extension-asan .venv -p tests.only_penstock "${last_failed[@]}"
}

ruff() { .venv/bin/ruff check . && .venv/bin/ruff format --check .; }

# Penstock's loop only: asyncio's own hangs in some of these tests on 3.14. Hypothesis counts references in a way that
# 3.14 changed.
loop_tests_only=(tests/python/loop tests/conformance/test_cpython_asyncio.py tests/conformance/reports)
# What has native code or speaks to devices, without the command line and the pages.
library_tests=(tests/python/{alicat,asgi,files,loop,record,serial,uring,websocket} "${loop_tests_only[@]:1}")
on_314=(
    -p tests.only_penstock
    -W 'ignore:It looks like `register_random`:hypothesis.errors.HypothesisWarning'
)

main_version() { .venv/bin/python -I -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# python_part VERSION: adds the tests on a CPython: all of them on the machine's, the quick ones of the library on another
# 3.11 or 3.13, the loop's on the others.
python_part() {
    local version=$1 venv=build/venv-$1 name options=() paths=()
    [ "$version" != "$(main_version)" ] || venv=.venv
    if [ ! -x "$venv/bin/python" ]; then
        absent+=("CPython $version")
        return
    fi
    case $version in
    "$(main_version)") name="CPython $version" ;;
    3.11 | 3.13)
        name="CPython $version, the library"
        options=(-p tests.only_penstock -m "not slow")
        paths=("${library_tests[@]}")
        ;;
    *)
        name="CPython $version, the loop"
        [ "$version" != 3.14 ] || options=("${on_314[@]}")
        paths=("${loop_tests_only[@]}")
        ;;
    esac
    part python "$name" python_tests "$venv" "${options[@]}" "${paths[@]}"
    again "$name" python_tests "$venv" "${options[@]}" "${paths[@]}" "${last_failed[@]}"
}
