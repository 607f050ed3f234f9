# System packages. A job's needs are lines "package|probe"; the probe is a command's name or a file,
# so that a tool which came by another road than the package manager counts too.

# The demo needs no more than "build": a C++20 compiler, and no clang.
packages_build='
g++|c++
cmake|cmake
ninja-build|ninja
liburing-dev|/usr/include/liburing.h
'
packages_test='
pkg-config|pkg-config
libgtest-dev|/usr/include/gtest/gtest.h
clang-19|clang++-19
libclang-rt-19-dev|/usr/lib/llvm-19/lib/clang/19/lib/linux
llvm-19|llvm-symbolizer-19
libc++-19-dev|/usr/lib/llvm-19/include/c++/v1/expected
libc++abi-19-dev|/usr/lib/llvm-19/lib/libc++abi.so
libssl-dev|/usr/include/openssl/ssl.h
postgresql|/usr/lib/postgresql
socat|socat
strace|strace
openssl|openssl
'
packages_bench='
clang-19|clang++-19
libasio-dev|/usr/include/asio.hpp
libuv1-dev|/usr/include/uv.h
strace|strace
liburing-dev|/usr/include/liburing.h
libssl-dev|/usr/include/openssl/ssl.h
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

# require_packages GROUP...: installs what the groups, and the system's Python, lack.
require_packages() {
    local group lines line missing=()
    for group in "$@"; do
        lines=packages_$group
        for line in ${!lines}; do
            is_present "${line#*|}" || missing+=("${line%%|*}")
        done
    done
    # Debian splits venv, the headers and CPython's tests off its Python; other Pythons have them.
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
    # Only now is there a Python to ask what else it lacks.
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
        fail "'apt-get update' failed; mend the package sources or the network, then run again"
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
