# System packages. A job's needs are lines "package|probe". The probe is a command's name or a file, so that a tool
# that was not installed by the package manager counts too.

# The demo needs only "build": a C++20 compiler, not clang.
packages_build='
g++|c++
cmake|cmake
ninja-build|ninja
liburing-dev|/usr/include/liburing.h
zlib1g-dev|/usr/include/zlib.h
libnghttp2-dev|/usr/include/nghttp2/nghttp2.h
'
packages_check='
pkg-config|pkg-config
libgtest-dev|/usr/include/gtest/gtest.h
libbrotli1|/usr/lib/x86_64-linux-gnu/libbrotlienc.so.1
libzstd1|/usr/lib/x86_64-linux-gnu/libzstd.so.1
'
packages_cpp='
ccache|ccache
clang-19|clang++-19
libclang-rt-19-dev|/usr/lib/llvm-19/lib/clang/19/lib/linux
llvm-19|llvm-symbolizer-19
libssl-dev|/usr/include/openssl/ssl.h
libcurl4-openssl-dev|curl-config
nlohmann-json3-dev|/usr/include/nlohmann/json.hpp
openssl|openssl
'
packages_test='
libc++-19-dev|/usr/lib/llvm-19/include/c++/v1/expected
libc++abi-19-dev|/usr/lib/llvm-19/lib/libc++abi.so
libasio-dev|/usr/include/asio.hpp
nginx-light|nginx
apache2-bin|/usr/sbin/apache2
chromium|chromium
postgresql|/usr/lib/postgresql
influxdb|influxd
mosquitto|/usr/sbin/mosquitto
mosquitto-clients|mosquitto_sub
nats-server|/usr/sbin/nats-server
prometheus|prometheus
victoria-metrics|victoria-metrics
iproute2|ip
sqlite3|sqlite3
socat|socat
strace|strace
curl|curl
'
packages_bench='
nghttp2-client|h2load
clang-19|clang++-19
libasio-dev|/usr/include/asio.hpp
libboost1.81-dev|/usr/include/boost/beast.hpp
libuv1-dev|/usr/include/uv.h
libjsoncpp-dev|/usr/include/jsoncpp/json/json.h
uuid-dev|/usr/include/uuid/uuid.h
strace|strace
liburing-dev|/usr/include/liburing.h
libssl-dev|/usr/include/openssl/ssl.h
wrk|wrk
'
packages_dist='
pkg-config|pkg-config
clang-19|clang++-19
libssl-dev|/usr/include/openssl/ssl.h
libcurl4-openssl-dev|curl-config
googletest|/usr/src/googletest/CMakeLists.txt
'
packages_docs='
libclang1-19|/usr/lib/llvm-19/lib/libclang-19.so.1
libclang-common-19-dev|/usr/lib/llvm-19/lib/clang/19/include
libstdc++-12-dev|/usr/include/c++/12/expected
'
packages_lint='
clang-format-19|clang-format-19
clang-tidy-19|clang-tidy-19
'

is_present() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# require_packages GROUP...: installs the missing packages of the groups and of the system's Python.
require_packages() {
    local group lines line missing=()
    for group in "$@"; do
        lines=packages_$group
        for line in ${!lines}; do
            is_present "${line#*|}" || missing+=("${line%%|*}")
        done
    done
    # Debian packages venv, the headers and CPython's tests separately; other Pythons include them.
    local python
    python=$(find_venv_python)
    if [ -z "$python" ]; then
        missing+=(python3 python3-venv python3-dev)
    elif is_distribution_python "$python"; then
        has_venv "$python" || missing+=(python3-venv)
        has_headers "$python" || missing+=(python3-dev)
        case " $* " in
        *" test "*) has_testsuite "$python" || missing+=("lib$(basename "$(real_path "$python")")-testsuite") ;;
        esac
    fi
    if [ ${#missing[@]} -eq 0 ]; then
        say "system packages: all present"
        return
    fi
    install_packages "${missing[@]}"
    # Python exists only now, so its missing parts can be determined only now.
    [ -n "$python" ] || require_packages "$@"
}

install_packages() {
    local install="apt-get install -y --no-install-recommends $*" as_root=()
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "this system has no apt-get; install what these Debian packages hold, then run again: $*"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        else
            fail "system packages are missing and only root can install them; run this as root, then run again:
    apt-get update && $install"
        fi
    fi
    say "system packages: installing $*"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
        fail "'apt-get update' failed; fix the package sources or the network, then run again"
    # shellcheck disable=SC2086 # package names hold no blanks
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install >"$(log_file apt)" 2>&1 || {
        tail -n 20 "$(log_file apt)" >&2
        fail "'$install' failed; its output is in $(log_file apt)"
    }
}

log_file() {
    mkdir -p build
    printf 'build/setup-%s.log' "$1"
}
