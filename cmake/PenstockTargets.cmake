# What every target of this project gets: language level, warnings, sanitizers, hidden symbols.

include(CheckIPOSupported)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(penstock_lto OFF)
if(PENSTOCK_LTO AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT PENSTOCK_SANITIZE)
  # Clang's needs its own linker plugin, which distributions package apart; GCC's always works.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    check_ipo_supported(RESULT penstock_lto LANGUAGES CXX)
  endif()
endif()

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
      # Its vptr check opens a pipe to look at memory, and calls an object bad when there is no
      # descriptor left for one, which is what some tests provoke.
      list(APPEND flags -fno-sanitize-recover=undefined -fno-sanitize=vptr)
    endif()
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PUBLIC ${flags})
  endif()
endfunction()

# For the extension modules: a thread that the exiting interpreter ends inside of one is held there instead.
# python/ext/ended_thread.cpp tells why.
function(penstock_hold_ended_threads target)
  target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/python/ext/ended_thread.cpp")
  # Compiled as it stands: link-time optimisation would look for its callers before they are there.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/python/ext/ended_thread.cpp" PROPERTIES
    COMPILE_OPTIONS "-fno-lto")
  target_link_options(${target} PRIVATE -Wl,--wrap=__gxx_personality_v0)
endfunction()
