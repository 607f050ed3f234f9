# penstock._core: the CPython extension module on penstock_io and the codecs.

file(GLOB_RECURSE penstock_ext_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/ext/*.cpp")

if(NOT penstock_ext_sources OR NOT TARGET penstock_io)
  if(SKBUILD)
    message(FATAL_ERROR "Penstock: the sources of penstock._core are missing (src/io, python/ext); "
                        "build from a complete source tree.")
  endif()
  message(STATUS "Penstock: no sources in python/ext, penstock._core is not built")
  return()
endif()

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
# Compiling for another architecture, CMake does not ask the interpreter, whose tag is this machine's.
if(CMAKE_CROSSCOMPILING AND SKBUILD_SOABI)
  set(Python_SOABI "${SKBUILD_SOABI}")
endif()

# The file name has the ABI tag, so that builds for several Pythons can coexist.
Python_add_library(penstock_core MODULE WITH_SOABI ${penstock_ext_sources})
set_target_properties(penstock_core PROPERTIES OUTPUT_NAME _core)
target_link_libraries(penstock_core PRIVATE penstock_io penstock_codec)
if(TARGET penstock_deflate)
  target_link_libraries(penstock_core PRIVATE penstock_deflate)
  target_compile_definitions(penstock_core PRIVATE PENSTOCK_HAS_DEFLATE=1)
endif()
target_include_directories(penstock_core PRIVATE "${PROJECT_SOURCE_DIR}/python/ext")
penstock_configure_extension(penstock_core)

install(TARGETS penstock_core COMPONENT python LIBRARY DESTINATION penstock)

include(PenstockRecord)
include(PenstockUring)

# A module with deliberate faults, with which scripts/test-extension-asan verifies its checks.
if(PENSTOCK_SANITIZE MATCHES "address")
  Python_add_library(penstock_leaking MODULE "${PROJECT_SOURCE_DIR}/tests/sanitizers/leaking.cpp")
  set_target_properties(penstock_leaking PROPERTIES OUTPUT_NAME leaking LIBRARY_OUTPUT_DIRECTORY leaking)
  penstock_configure_target(penstock_leaking 20)
  target_include_directories(penstock_leaking PRIVATE "${PROJECT_SOURCE_DIR}/python")
  target_compile_options(penstock_leaking PRIVATE -Wno-missing-field-initializers)
endif()
