# Wheels and the source distribution: building, repairing, and trying them in new virtual environments.

wheel_limit=$((3 * 1024 * 1024))

# Tests that run against an installed wheel: a part of each floor, in seconds.
wheel_tests='
tests/python/loop/test_running.py
tests/python/loop/test_tcp_transport.py
tests/python/loop/test_timers.py
tests/python/loop/test_exit_with_threads.py
tests/python/files/test_binary_files.py
tests/python/uring/test_file_operations.py
tests/python/serial/test_receiving.py
tests/python/record/test_csv_sink.py
tests/python/record/test_recorder.py
'

# new_venv FOLDER VERSION: an empty virtual environment.
new_venv() {
    rm -rf "$1"
    "$(find_cpython "$2")" -m venv --without-pip "$1" || fail "could not create the virtual environment $1"
}

# into VENV ARGUMENT...: pip install with the pinned versions.
into() {
    local folder=$1
    shift
    "$root/$venv/bin/python" -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check \
        --constraint constraints.txt "$@"
}

# wheel_of VERSION ARCHITECTURE
wheel_of() { echo "$target"/penstock-*-cp"${1/./}"-cp"${1/./}"-"manylinux_${glibc/./_}_$2".whl; }

# build_wheel VERSION ARCHITECTURE: from the unpacked source distribution, which also proves that this is complete.
build_wheel() {
    local version=$1 architecture=$2 builder=$work/builder-$1-$2 raw=$work/raw log setting settings=() environment
    log=$(log_file "wheel-$version-$architecture")
    say "CPython $version, $architecture: wheel"
    prepare_zig "$architecture"
    new_venv "$builder" "$version"
    into "$builder" scikit-build-core
    while read -r setting; do settings+=(--config-settings "cmake.define.$setting"); done < <(zig_settings "$architecture")
    mapfile -t environment < <(zig_environment "$architecture")
    rm -f {"$raw","$target"}/*-cp"${version/./}"-*_"$architecture".whl
    env "${environment[@]}" "$venv/bin/python" -m pip --python "$builder/bin/python" wheel --disable-pip-version-check --verbose \
        --no-deps --no-build-isolation --wheel-dir "$raw" "${settings[@]}" \
        --config-settings install.strip=false "$work/source" >"$log" 2>&1 ||
        fail "the wheel for CPython $version, $architecture could not be built; the output is in $log"
    grep -q "io_uring through" "$log" ||
        fail "the wheel for CPython $version, $architecture was built without io_uring; see $log"
    # Its option for a platform knows only this machine's, so the tag is compared afterwards.
    PATH=$root/$tools/bin:$PATH "$tools/bin/python" -m auditwheel repair --plat auto \
        --wheel-dir "$target" "$raw"/*-cp"${version/./}"-*_"$architecture".whl >>"$log" 2>&1 ||
        fail "auditwheel refuses the wheel for CPython $version, $architecture: $(tail -n 1 "$log")"
    [ -e "$(wheel_of "$version" "$architecture")" ] ||
        fail "auditwheel gives the wheel for CPython $version, $architecture another tag than glibc $glibc's: $(tail -n 1 "$log")"
    check_size "$(wheel_of "$version" "$architecture")"
}

check_size() {
    local bytes
    bytes=$(stat -c %s "$1")
    [ "$bytes" -lt "$wheel_limit" ] || fail "$1 has $bytes bytes, the limit is $wheel_limit"
}

# try_wheel VERSION: in a new virtual environment, with a path on which no compiler is.
try_wheel() {
    local version=$1 trial=$work/trial-$1
    say "CPython $version: trying the wheel"
    new_venv "$trial" "$version"
    (
        PATH=$root/$trial/bin
        into "$trial" --only-binary :all: "$(wheel_of "$version" x86_64)" && in_empty_folder "$trial"
    ) || fail "the wheel for CPython $version does not work"
    test_installed "$trial" || fail "tests fail on the wheel for CPython $version"
}

try_sdist() {
    local trial=$work/trial-sdist version
    version=$(version_of "$venv/bin/python")
    say "CPython $version: installing the source distribution"
    new_venv "$trial" "$version"
    # Nothing of it is binary; where pip unpacks it differs each time, which ccache must not see.
    CCACHE_BASEDIR=${TMPDIR:-/tmp} CCACHE_NOHASHDIR=1 into "$trial" --no-binary penstock "$sdist" ||
        fail "the source distribution could not be installed"
    in_empty_folder "$trial" || fail "the installed source distribution does not work"
    test_installed "$trial" || fail "tests fail on the installed source distribution"
}

# in_empty_folder VENV [OPTION...]: tries what is installed.
in_empty_folder() {
    local folder=$root/$1/empty
    /bin/mkdir "$folder"
    (cd "$folder" && "$root/$1/bin/python" -I "$root/scripts/packaging/try_installed.py" "${@:2}")
}

# test_installed VENV: the tests import the installed package, not the source tree's.
test_installed() {
    local lines
    lines=$("$1/bin/python" -I scripts/requirements.py list loop-test)
    printf '%s\n' "$lines" >"$1/requirements.txt"
    into "$1" --requirement "$1/requirements.txt"
    # shellcheck disable=SC2086 # one file a line
    PYTHONPATH='' "$1/bin/python" -m pytest -q -o pythonpath=. -o cache_dir="$work/pytest-cache" -p tests.only_penstock \
        -W 'ignore:It looks like `register_random`' $wheel_tests
}
