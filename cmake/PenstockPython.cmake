# penstock._core: the CPython extension module on penstock_io.

file(GLOB penstock_ext_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/ext/*.cpp")
list(FILTER penstock_ext_sources EXCLUDE REGEX "/(uring_|ended_thread)[^/]*$")

if(NOT penstock_ext_sources OR NOT TARGET penstock_io)
  if(SKBUILD)
    message(FATAL_ERROR "Penstock: the sources of penstock._core are missing (src/io, python/ext); "
                        "build from a complete source tree.")
  endif()
  message(STATUS "Penstock: no sources in python/ext, penstock._core is not built")
  return()
endif()

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

# The file name carries the ABI tag, so that builds for several Pythons lie side by side.
Python_add_library(penstock_core MODULE WITH_SOABI ${penstock_ext_sources})
set_target_properties(penstock_core PROPERTIES OUTPUT_NAME _core)
target_link_libraries(penstock_core PRIVATE penstock_io)
penstock_configure_target(penstock_core 20)
# The C API's tables (PyMethodDef, PyMemberDef, PyType_Slot) end in entries with most members left out.
target_compile_options(penstock_core PRIVATE -Wno-missing-field-initializers)
# Keeps the static library's symbols out of the module's table: another extension that carries
# its own copy must not be bound to this one.
target_link_options(penstock_core PRIVATE -Wl,--exclude-libs,ALL)
penstock_hold_ended_threads(penstock_core)

install(TARGETS penstock_core COMPONENT python LIBRARY DESTINATION penstock)

include(PenstockUring)

# A module that leaks, by which scripts/test-extension-asan checks that it sees leaks.
if(PENSTOCK_SANITIZE MATCHES "address")
  Python_add_library(penstock_leaking MODULE "${PROJECT_SOURCE_DIR}/tests/sanitizers/leaking.cpp")
  set_target_properties(penstock_leaking PROPERTIES OUTPUT_NAME leaking LIBRARY_OUTPUT_DIRECTORY leaking)
  penstock_configure_target(penstock_leaking 20)
  target_compile_options(penstock_leaking PRIVATE -Wno-missing-field-initializers)
endif()
