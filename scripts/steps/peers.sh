# Peers of the benchmarks that Debian 12 lacks or has only in older versions. They are taken from Debian unstable, unpacked
# to build/peers and never installed: Asio's headers, the sources of Drogon and Trantor, and liburing, without which the
# newest pyuring does not compile. libuv's source comes with uvloop's: unstable's cannot be fetched everywhere. The sources
# of uWebSockets come with a Rust package.

peers=build/peers

# fetch_newest_peers: true if build/peers exists afterwards. The benchmarks then measure both versions of Asio.
fetch_newest_peers() {
    if [ -e "$peers/usr/include/asio.hpp" ] && [ -e "$peers/drogon/trantor" ] && [ -e "$peers/libuv" ] && [ -e "$peers/usr/include/liburing.h" ]; then return; fi
    if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
        say "$peers: no apt-get to fetch the newest Asio, Drogon, libuv and liburing with, continuing without them"
        return 1
    fi
    say "$peers: fetching the newest Asio, Drogon, libuv and liburing, most from Debian unstable"
    rm -rf "$peers" "$peers.new"
    mkdir -p "$peers.new"
    if ! unpack_peers "$root/$peers-apt" "$peers.new" >"$(log_file peers)" 2>&1; then
        say "$peers: cannot be fetched through this machine's apt ($(log_file peers)), continuing without it"
        rm -rf "$peers.new"
        return 1
    fi
    mv "$peers.new" "$peers"
}

# unpack_peers APT_FOLDER TARGET: the packages alone, without what they depend on. The kernel's headers, of which
# liburing needs newer ones, have a folder of their own, so that they replace no header of the system.
unpack_peers() {
    local apt=$1 target=$2 package folder
    prepare_apt "$apt" unstable || return 1
    (cd "$apt/cache/archives" &&
        apt-get -c "$apt/apt.conf" -qq download libasio-dev liburing-dev liburing2 linux-libc-dev) || return 1
    for package in "$apt"/cache/archives/*.deb; do
        case $package in */linux-libc-dev_*) folder=$target/kernel ;; *) folder=$target ;; esac
        dpkg-deb -x "$package" "$folder" || return 1
    done
    # The packages' libraries need a newer C library than this system's, so their sources are built with the benchmarks.
    # Trantor lies where Drogon's build looks for it.
    sed -i 's/^deb \(.*\)/&\ndeb-src \1/' "$apt/sources.list"
    apt-get -c "$apt/apt.conf" -qq -o APT::Update::Error-Mode=any update &&
        (cd "$apt" && apt-get -c "$apt/apt.conf" -qq --download-only source drogon trantor) &&
        mkdir -p "$target/drogon/trantor" &&
        tar -xf "$apt"/drogon_*.orig.tar.* -C "$target/drogon" --strip-components 1 &&
        tar -xf "$apt"/trantor_*.orig.tar.* -C "$target/drogon/trantor" --strip-components 1 || return 1
    "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary uvloop \
        --constraint constraints.txt --dest "$apt" uvloop &&
        mkdir -p "$target/libuv" &&
        tar -xf "$apt"/uvloop-*.tar.gz -C "$target/libuv" --strip-components 3 --wildcards '*/vendor/libuv' || return 1
    rm -rf "$apt"
}

uwebsockets_crate=0.0.10

# fetch_uwebsockets: the sources of uWebSockets and uSockets to build/peers/uwebsockets. They have no package of their
# own, but the Rust package libuwebsockets-sys contains them. What that package is built with is not needed here, so an
# empty package stands in for it. Nothing where cargo is missing: the pages then say that the peer was not built.
fetch_uwebsockets() {
    local target=$peers/uwebsockets fetching
    if grep -qxsF "version = \"$uwebsockets_crate\"" "$target/Cargo.toml"; then return; fi
    if ! command -v cargo >/dev/null 2>&1; then
        say "uWebSockets: no cargo on this machine to fetch its sources with, continuing without uWebSockets"
        return
    fi
    say "$target: fetching the sources of uWebSockets"
    mkdir -p "$peers"
    fetching=$(mktemp -d "$root/$peers/fetching-XXXXXX")
    if (cd "$fetching" && vendor_uwebsockets) >"$(log_file uwebsockets)" 2>&1; then
        rm -rf "$target"
        mv "$fetching/vendor/libuwebsockets-sys" "$target"
    else
        say "$target: cannot be fetched through this machine's cargo ($(log_file uwebsockets)), continuing without it"
    fi
    rm -rf "$fetching"
}

# vendor_uwebsockets: the pinned package to ./vendor.
vendor_uwebsockets() {
    mkdir -p src bindgen/src
    touch src/lib.rs bindgen/src/lib.rs
    printf '[package]\nname = "bindgen"\nversion = "0.69.5"\nedition = "2021"\n' >bindgen/Cargo.toml
    printf '[package]\nname = "peers"\nversion = "0.0.0"\nedition = "2021"\n
[workspace]\n
[dependencies]\nlibuwebsockets-sys = "=%s"\n
[patch.crates-io]\nbindgen = { path = "bindgen" }\n' "$uwebsockets_crate" >Cargo.toml
    cargo vendor --quiet vendor
}

newest_pyuring=0.3.3

# build_pyuring VENV: pyuring's newest version from its source, linked with that liburing. Where that fails, the venv
# keeps the version that has a wheel; the pages state which one they measured.
build_pyuring() {
    local target=$1 libraries
    if runs "$target/bin/python" "from importlib.metadata import version; assert version('pyuring') == '$newest_pyuring'"; then
        return
    fi
    libraries=$(ls "$root/$peers"/usr/lib/*/liburing.so.2 2>/dev/null | head -n 1)
    [ -n "$libraries" ] || return 0
    libraries=$(dirname "$libraries")
    say "$target: building pyuring $newest_pyuring with the liburing of $peers"
    CFLAGS="-O2 -fPIC -I$root/$peers/usr/include -idirafter $root/$peers/kernel/usr/include" LDFLAGS="-L$libraries -Wl,-rpath,$libraries" \
        "$venv/bin/python" -m pip --python "$target/bin/python" install --quiet --disable-pip-version-check \
        --no-deps --no-cache-dir --no-binary pyuring "pyuring==$newest_pyuring" >"$(log_file pyuring)" 2>&1 ||
        say "$target: pyuring $newest_pyuring does not build here ($(log_file pyuring)), continuing with the version that has a wheel"
}

robyn=0.88.0

# install_peers VENV: the loops and web servers that Penstock's are compared with, each by itself: one that has no wheel for
# this machine is said and left out, and so do the pages. Robyn pins older versions of what the others need, so it has a
# virtual environment of its own.
install_peers() {
    local target=$1 requirement
    while read -r requirement; do
        "$venv/bin/python" -m pip --python "$target/bin/python" install --quiet --disable-pip-version-check \
            --only-binary :all: --constraint constraints.txt "$requirement" >"$(log_file peers-wheels)" 2>&1 </dev/null ||
            say "$target: $requirement has no wheel for this machine ($(log_file peers-wheels)), continuing without it"
    done < <("$target/bin/python" scripts/requirements.py list bench-loops bench-web)
    if runs build/robyn/bin/python "from importlib.metadata import version; assert version('robyn') == '$robyn'"; then return; fi
    say "build/robyn: installing Robyn $robyn"
    rm -rf build/robyn
    { "$target/bin/python" -m venv build/robyn &&
        build/robyn/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: "robyn==$robyn"; } \
        >"$(log_file robyn)" 2>&1 || say "build/robyn: Robyn cannot be installed ($(log_file robyn)), continuing without it"
}
