# Zig's C++ compiler, from the package ziglang: it links against the interface of an old glibc, so that a wheel that is
# built on Debian 12 runs on older distributions. The C++ standard library (LLVM's libc++) is linked statically.
# Rejected: g++, whose wheels need the glibc of the machine that builds them.
# The same driver compiles for another architecture, against the headers and libraries of the machine that
# scripts/steps/aarch64_machine.sh unpacks.

# The oldest glibc that wheels run on.
glibc=2.28

# The folder that a Debian for the architecture is in.
debian_of() { if [ "$1" = aarch64 ]; then echo "$root/$aarch64/root"; fi; }

# prepare_zig ARCHITECTURE: the compiler's programs in build/dist/zig-ARCHITECTURE, the headers that it may see beside
# them: with the whole of /usr/include it would read this machine's glibc.
prepare_zig() {
    local architecture=$1 zig folder headers tool
    folder=$root/$work/zig-$architecture
    headers=$(debian_of "$architecture")/usr/include
    zig=$("$tools/bin/python" -I -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
    mkdir -p "$folder/include"
    # The name tells ccache which options the compiler has.
    printf '#!/bin/sh\nexec "%s" c++ -target %s-linux-gnu.%s "$@"\n' "$zig" "$architecture" "$glibc" >"$folder/clang++"
    for tool in ar ranlib; do
        printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/$tool"
    done
    chmod +x "$folder/clang++" "$folder/ar" "$folder/ranlib"
    cp -r "$headers"/{liburing,liburing.h,zlib.h,zconf.h} "$folder/include"
    if [ "$architecture" = aarch64 ]; then prepare_python_headers "$headers" "$folder"; fi
    export ZIG_GLOBAL_CACHE_DIR=$root/$work/zig-cache
    export CCACHE_COMPILERCHECK="string:$zig $("$zig" version) $architecture $glibc"
}

# prepare_python_headers HEADERS FOLDER: CPython 3.11's for aarch64 in FOLDER/include, and what its sysconfig says.
prepare_python_headers() {
    cp -r "$1/python3.11" "$2/include"
    # Debian's configuration header includes another one by a path relative to /usr/include.
    cp "$1/aarch64-linux-gnu/python3.11/pyconfig.h" "$2/include/python3.11/pyconfig.h"
    mkdir -p "$2/sysconfig"
    cp "${1%/include}/lib/python3.11/_sysconfigdata__aarch64-linux-gnu.py" "$2/sysconfig"
}

# zig_settings ARCHITECTURE: CMake's definitions, one a line.
zig_settings() {
    local folder=$root/$work/zig-$1 libraries
    libraries=$(debian_of "$1")
    cat <<END_OF_SETTINGS
CMAKE_CXX_COMPILER=$folder/clang++
CMAKE_AR=$folder/ar
CMAKE_RANLIB=$folder/ranlib
CMAKE_MODULE_LINKER_FLAGS=-s
PENSTOCK_LIBURING_INCLUDE=$folder/include
PENSTOCK_LIBURING_ARCHIVE=$libraries/usr/lib/$1-linux-gnu/liburing.a
PENSTOCK_ZLIB_INCLUDE=$folder/include
PENSTOCK_ZLIB=$libraries/lib/$1-linux-gnu/libz.so.1
END_OF_SETTINGS
    if [ "$1" = aarch64 ]; then
        printf '%s\n' CMAKE_SYSTEM_NAME=Linux "CMAKE_SYSTEM_PROCESSOR=$1" "Python_INCLUDE_DIR=$folder/include/python3.11"
    fi
}

# zig_environment ARCHITECTURE: variables, one a line, with which this machine's CPython names modules and wheels after the
# one that they are for.
zig_environment() {
    if [ "$1" = aarch64 ]; then
        printf '%s\n' "_PYTHON_HOST_PLATFORM=linux-$1" "_PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__$1-linux-gnu" \
            "PYTHONPATH=$root/$work/zig-$1/sysconfig"
    fi
}
