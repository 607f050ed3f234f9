# Settings of every target of this project: language level, warnings, sanitizers, hidden symbols.

include(CheckIPOSupported)
include(CheckLinkerFlag)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(penstock_lto OFF)
if(PENSTOCK_LTO AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT PENSTOCK_SANITIZE)
  # Clang's LTO needs a linker plugin that distributions package separately; GCC's always works.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    check_ipo_supported(RESULT penstock_lto LANGUAGES CXX)
  endif()
endif()

check_linker_flag(CXX "-Wl,--exclude-libs,ALL" PENSTOCK_LINKER_EXCLUDES_LIBS)

function(penstock_configure_target target cxx_standard)
  target_compile_features(${target} PUBLIC cxx_std_${cxx_standard})
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    INTERPROCEDURAL_OPTIMIZATION ${penstock_lto})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
  if(PENSTOCK_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(PENSTOCK_SANITIZE)
    set(flags -fsanitize=${PENSTOCK_SANITIZE} -fno-omit-frame-pointer)
    if(PENSTOCK_SANITIZE MATCHES "undefined")
      # Without this an undefined operation only prints a line and the test still passes.
      # The vptr check opens a pipe to inspect memory, and reports an object as invalid if no
      # descriptor is left, which some tests provoke.
      list(APPEND flags -fno-sanitize-recover=undefined -fno-sanitize=vptr)
    endif()
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PUBLIC ${flags})
  endif()
endfunction()

# Settings of all extension modules (penstock._core, penstock._record, penstock._uring); their common sources are in python/shared.
function(penstock_configure_extension target)
  penstock_configure_target(${target} 20)
  set(shared "${PROJECT_SOURCE_DIR}/python/shared")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/python")
  # Each source would need a second to read these. The lint preset compiles without, so that a missing include shows.
  target_precompile_headers(${target} PRIVATE <Python.h> <algorithm> <array> <chrono> <functional> <memory> <optional>
                            <span> <string> <string_view> <system_error> <utility> <vector>)
  # The C API's tables (PyMethodDef, PyMemberDef, PyType_Slot) end with entries that omit most members.
  target_compile_options(${target} PRIVATE -Wno-missing-field-initializers)
  # An iteration of the loop takes up to 8 % longer where the linker happens to let hot functions begin in the middle of
  # a cache line. At the beginning of one, they cost the same after every change elsewhere (3 % more code).
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -falign-functions=64)
    target_link_options(${target} PRIVATE -falign-functions=64)
  endif()
  # Keeps the static library's symbols out of the module's symbol table: another extension with its
  # own copy must not bind to this one.
  if(PENSTOCK_LINKER_EXCLUDES_LIBS)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  else()
    # Zig's compiler driver does not pass that option on.
    target_link_options(${target} PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/extension_symbols.map")
  endif()
  # Parks threads that the exiting interpreter ends inside the module; ended_thread.cpp gives the reason. That file
  # is compiled without link-time optimisation, which would look for its callers before they exist.
  target_sources(${target} PRIVATE "${shared}/ended_thread.cpp")
  set_source_files_properties("${shared}/ended_thread.cpp" PROPERTIES COMPILE_OPTIONS "-fno-lto")
  target_link_options(${target} PRIVATE -Wl,--wrap=__gxx_personality_v0)
endfunction()
