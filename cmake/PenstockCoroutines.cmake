# penstock::penstock: the C++23 coroutine library on penstock_io. Floor 2, without Python.

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

file(GLOB_RECURSE penstock_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cpp")
list(FILTER penstock_sources EXCLUDE REGEX "/src/(io|codec|tls|http/client)/")

add_library(penstock STATIC ${penstock_sources})
add_library(penstock::penstock ALIAS penstock)
target_link_libraries(penstock PUBLIC penstock_io penstock_codec)
target_include_directories(penstock PRIVATE "${PROJECT_SOURCE_DIR}/src")
penstock_configure_target(penstock 23)

install(TARGETS penstock EXPORT penstock-targets COMPONENT cpp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/penstock" COMPONENT cpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} REGEX "include/penstock/(io|codec)$" EXCLUDE)

include(PenstockForwarding)
include(PenstockTls)
include(PenstockHttpClient)
include(PenstockInstall)
if(PROJECT_IS_TOP_LEVEL)
  include(PenstockPackages)
endif()
