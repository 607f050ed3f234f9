# The C++ library as a Debian package and as an archive, and a program that is built against what the package installs.

cpp_package() {
    local build=$work/cpp unpacked=$work/cpp-unpacked consumer=$work/cpp-consumer package
    say "C++ library: Debian package and archive"
    cmake -S "$work/source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++-19 \
        -DCMAKE_INSTALL_PREFIX=/usr -DPENSTOCK_BUILD_CPP=ON -DPENSTOCK_BUILD_PYTHON=OFF \
        -DPENSTOCK_BUILD_TESTS=OFF >"$(log_file cpp)" 2>&1 &&
        cmake --build "$build" --parallel "$(nproc)" >>"$(log_file cpp)" 2>&1 &&
        (cd "$build" && cpack) >>"$(log_file cpp)" 2>&1 ||
        fail "the C++ package could not be built; the output is in $(log_file cpp)"
    rm -f "$target"/libpenstock-dev*
    cp "$build"/libpenstock-dev* "$target"
    package=$(echo "$target"/libpenstock-dev_*.deb)
    say "C++ library: an example with the package in a folder"
    rm -rf "$unpacked" "$consumer"
    dpkg-deb --extract "$package" "$unpacked"
    # As a user's project sees it: the sources of Penstock are elsewhere.
    ctest --build-and-test tests/cpp/package/consumer "$consumer" --build-generator Ninja \
        --build-options "-DCMAKE_PREFIX_PATH=$root/$unpacked/usr" -DCMAKE_CXX_COMPILER=clang++-19 \
        --test-command ctest --output-on-failure --no-tests=error >"$(log_file cpp-consumer)" 2>&1 ||
        fail "a program cannot be built with $package; the output is in $(log_file cpp-consumer)"
    say "C++ library: $(dpkg-deb --field "$package" Package Version Architecture Depends | paste -sd' ')"
}
