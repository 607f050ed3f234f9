# The native build: penstock._core, penstock._record and penstock._uring for one Python, copied into the source tree under
# their ABI-tagged names, so that the modules of several Pythons can coexist.

# build_extension VENV
build_extension() {
    local python version tree
    python=$root/$1/bin/python
    version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    tree=build/release/python-$version
    has_headers "$python" || fail "$(real_path "$python") has no C headers (Python.h); install them (Debian: apt-get install python3-dev)"
    if ! { [ -e "$tree/build.ninja" ] && grep -qxF "Python_EXECUTABLE:FILEPATH=$python" "$tree/CMakeCache.txt"; }; then
        say "native build: configuring $tree"
        rm -rf "$tree"
        cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_BUILD_TESTS=OFF \
            "-DPython_EXECUTABLE:FILEPATH=$python" >"$(log_file configure)" 2>&1 || {
            cat "$(log_file configure)" >&2
            fail "CMake could not configure $tree"
        }
    fi
    say "native build: the extension modules for Python $version"
    cmake --build "$tree" --parallel "$(nproc)" || fail "the build in $tree failed"
    place_extension "$tree"
}

# A process that imports meanwhile finds the module of before or the new one: the linker writes a file step by step, and
# half of one is "file too short". What runs keeps the module that it has.
# place_extension TREE
place_extension() {
    local module placed beside
    compgen -G "$1/_core.*.so" >/dev/null || fail "the build in $1 made no extension module; are src/io and python/ext complete?"
    for module in "$1"/_*.so; do
        placed=python/penstock/$(basename "$module")
        if [ ! -L "$placed" ] && cmp --silent "$module" "$placed"; then
            continue
        fi
        beside=${placed%.so}.$$.so
        { cp "$module" "$beside" && mv -fT "$beside" "$placed"; } || fail "the module $module cannot be copied to $placed"
    done
}
