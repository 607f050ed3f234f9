# penstock::penstock: the C++23 coroutine library. This is its place; no part of it is built yet.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} miscompiles C++ coroutines; build with clang 19 "
    "(-DCMAKE_CXX_COMPILER=clang++-19) or GCC 13 or newer, or set PENSTOCK_BUILD_CPP=OFF.")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "Clang ${CMAKE_CXX_COMPILER_VERSION} is too old for PENSTOCK_BUILD_CPP; "
    "build with clang 19 or newer (-DCMAKE_CXX_COMPILER=clang++-19).")
endif()
