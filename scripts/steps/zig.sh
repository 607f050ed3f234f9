# Zig's C++ compiler, from the package ziglang: it links against the interface of an old glibc, so that a wheel that is
# built on Debian 12 runs on older distributions. The C++ standard library (LLVM's libc++) is linked statically.
# Rejected: g++, whose wheels need the glibc of the machine that builds them.

# The oldest glibc that wheels run on.
glibc=2.28

# prepare_zig ARCHITECTURE: the compiler's programs in build/dist/zig-ARCHITECTURE, the headers that it may see beside
# them: with the whole of /usr/include it would read this machine's glibc.
prepare_zig() {
    local architecture=$1 zig folder tool
    folder=$root/$work/zig-$architecture
    zig=$("$tools/bin/python" -I -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
    mkdir -p "$folder/include"
    # The name tells ccache which options the compiler has.
    printf '#!/bin/sh\nexec "%s" c++ -target %s-linux-gnu.%s "$@"\n' "$zig" "$architecture" "$glibc" >"$folder/clang++"
    for tool in ar ranlib; do
        printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/$tool"
    done
    chmod +x "$folder/clang++" "$folder/ar" "$folder/ranlib"
    cp -r /usr/include/liburing /usr/include/liburing.h /usr/include/zlib.h /usr/include/zconf.h "$folder/include"
    export ZIG_GLOBAL_CACHE_DIR=$root/$work/zig-cache
    export CCACHE_COMPILERCHECK="string:$zig $("$zig" version) $architecture $glibc"
}

# zig_settings ARCHITECTURE LIBRARIES: CMake's definitions, one a line; LIBRARIES is the folder of liburing.a and libz.so.
zig_settings() {
    local folder=$root/$work/zig-$1
    cat <<END_OF_SETTINGS
CMAKE_CXX_COMPILER=$folder/clang++
CMAKE_AR=$folder/ar
CMAKE_RANLIB=$folder/ranlib
CMAKE_MODULE_LINKER_FLAGS=-s
PENSTOCK_LIBURING_INCLUDE=$folder/include
PENSTOCK_LIBURING_ARCHIVE=$2/liburing.a
PENSTOCK_ZLIB_INCLUDE=$folder/include
PENSTOCK_ZLIB=$2/libz.so
END_OF_SETTINGS
}
