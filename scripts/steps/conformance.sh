# Source distributions of other projects: their tests, which tests/conformance runs against Penstock, and llhttp, which
# is part of httptools and with which the C++ tests compare. They are downloaded to
# build/conformance and never committed; constraints.txt pins their versions.

conformance=build/conformance

# fetch_sdist NAME: unpacks the pinned source distribution to build/conformance/NAME-VERSION unless it exists.
# Without a network, what needs it is skipped with that reason, and the set-up continues.
fetch_sdist() {
    local name=$1 pin unpacked folder
    pin=$(grep -m 1 "^$name==" constraints.txt) || fail "constraints.txt does not pin $name, whose sources the tests need"
    unpacked=$conformance/$name-${pin#*==}
    if [ -d "$unpacked" ]; then
        return
    fi
    say "$unpacked: fetching the sources of $name"
    mkdir -p "$conformance"
    folder=$(mktemp -d "$conformance/fetching-XXXXXX")
    if "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$name" \
        --dest "$folder" "$pin" >"$(log_file sdist)" 2>&1 &&
        tar -xzf "$folder"/*.tar.gz -C "$folder" && mv "$folder"/*/ "$unpacked"; then
        rm -rf "$folder"
    else
        rm -rf "$folder"
        say "$name's source distribution could not be fetched ($(log_file sdist)): the tests that need it will be skipped"
    fi
}

# fetch_websockets: the sources of websockets to build/conformance. Its source distribution has no tests of its asyncio
# half; that of Debian 13's package has.
fetch_websockets() {
    local version=15.0.1 apt=$PWD/build/websockets-sources unpacked log
    unpacked=$conformance/websockets-$version
    if [ -d "$unpacked" ]; then
        return
    fi
    say "$unpacked: fetching the sources of websockets"
    log=$(log_file websockets)
    mkdir -p "$conformance"
    if prepare_apt "$apt" trixie "$(dpkg --print-architecture)" deb-src >"$log" 2>&1 &&
        (cd "$apt" && apt-get -c apt.conf -qq source --download-only --tar-only python-websockets) >>"$log" 2>&1 &&
        tar -xzf "$apt/python-websockets_$version.orig.tar.gz" -C "$apt" >>"$log" 2>&1; then
        mv "$apt/websockets-$version" "$unpacked"
    else
        say "the sources of websockets $version could not be fetched ($log): its tests will be skipped"
    fi
    rm -rf "$apt"
}

# fetch_bun: Bun, a peer of the WebSocket tests and of a benchmark, to build/bun. Nothing where npm is missing.
fetch_bun() {
    local bun=build/bun/node_modules/.bin/bun
    if [ -x "$bun" ] && "$bun" --version >/dev/null 2>&1; then
        return
    fi
    if ! command -v npm >/dev/null; then
        say "Bun: npm is not on this machine, continuing without Bun"
        return
    fi
    say "build/bun: installing Bun"
    mkdir -p build/bun
    # npm may keep scripts of packages from running; this one puts the program in its place.
    npm install --prefix build/bun --no-audit --no-fund --silent bun@1.4.5 >"$(log_file bun)" 2>&1 &&
        (cd build/bun && node node_modules/bun/install.js) >>"$(log_file bun)" 2>&1 ||
        say "Bun could not be installed ($(log_file bun)): what needs it is skipped"
}

# fetch_autobahn: the Autobahn test suite, for CPython 2.7, to build/autobahn. Nothing where that is missing.
fetch_autobahn() {
    local python2
    if [ -d build/autobahn/autobahntestsuite ]; then
        return
    fi
    python2=$(ls -d "$HOME"/.pyenv/versions/2.7*/bin/python 2>/dev/null | head -n 1)
    [ -n "$python2" ] || python2=$(command -v python2.7 || true)
    if [ -z "$python2" ]; then
        say "Autobahn test suite: no CPython 2.7 on this machine, continuing without the suite"
        return
    fi
    say "build/autobahn: installing the Autobahn test suite"
    "$python2" -m pip install --quiet --disable-pip-version-check --target build/autobahn autobahntestsuite==25.10.1 \
        >"$(log_file autobahn)" 2>&1 ||
        say "the Autobahn test suite could not be installed ($(log_file autobahn)): it is skipped"
}
