# liburing 2.3 or newer, for the ring engine and for penstock.uring. Sets
#   PENSTOCK_LIBURING          the library's file, or empty: the build then continues without the ring
#   PENSTOCK_LIBURING_FLAG     the linker flag for installed files, which may be used on another machine
#   PENSTOCK_LIBURING_INCLUDE  the folder of liburing.h
# Variables instead of an imported target, which would have to be exported with the installed library.
#
# The static archive is used if it is position independent, so that the extension module needs no liburing at
# run time; otherwise the shared library.

include_guard(GLOBAL)

include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
include(CMakePushCheckState)

find_path(PENSTOCK_LIBURING_INCLUDE liburing.h)
find_library(PENSTOCK_LIBURING_ARCHIVE NAMES liburing.a)
find_library(PENSTOCK_LIBURING_SHARED NAMES liburing.so uring)
mark_as_advanced(PENSTOCK_LIBURING_INCLUDE PENSTOCK_LIBURING_ARCHIVE PENSTOCK_LIBURING_SHARED)

set(PENSTOCK_LIBURING "")
set(PENSTOCK_LIBURING_FLAG "")
# io_uring_register_sync_cancel came with 2.3.
set(penstock_liburing_probe [[
#include <liburing.h>
int probe(io_uring* ring, io_uring_sync_cancel_reg* what) {
    return io_uring_register_sync_cancel(ring, what) + io_uring_register_ring_fd(ring);
}
]])

# Zig's compiler driver refuses the option; its linker always does what it asks for.
check_linker_flag(CXX -Wl,-z,text PENSTOCK_LINKER_HAS_Z_TEXT)

if(PENSTOCK_LIBURING_INCLUDE)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_INCLUDES "${PENSTOCK_LIBURING_INCLUDE}")
  set(CMAKE_REQUIRED_FLAGS "-fPIC")
  set(CMAKE_REQUIRED_LINK_OPTIONS -shared)
  if(PENSTOCK_LINKER_HAS_Z_TEXT)
    list(APPEND CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,text)
  endif()
  if(PENSTOCK_LIBURING_ARCHIVE)
    set(CMAKE_REQUIRED_LIBRARIES -Wl,--whole-archive "${PENSTOCK_LIBURING_ARCHIVE}" -Wl,--no-whole-archive)
    check_cxx_source_compiles("${penstock_liburing_probe}" PENSTOCK_LIBURING_ARCHIVE_WORKS)
  endif()
  if(PENSTOCK_LIBURING_ARCHIVE_WORKS)
    set(PENSTOCK_LIBURING "${PENSTOCK_LIBURING_ARCHIVE}")
    set(PENSTOCK_LIBURING_FLAG -l:liburing.a)
  elseif(PENSTOCK_LIBURING_SHARED)
    set(CMAKE_REQUIRED_LIBRARIES -Wl,-z,defs "${PENSTOCK_LIBURING_SHARED}" -lc)
    check_cxx_source_compiles("${penstock_liburing_probe}" PENSTOCK_LIBURING_SHARED_WORKS)
    if(PENSTOCK_LIBURING_SHARED_WORKS)
      set(PENSTOCK_LIBURING "${PENSTOCK_LIBURING_SHARED}")
      set(PENSTOCK_LIBURING_FLAG -luring)
    endif()
  endif()
  cmake_pop_check_state()
endif()

if(PENSTOCK_LIBURING)
  message(STATUS "Penstock: io_uring through ${PENSTOCK_LIBURING}")
else()
  message(STATUS "Penstock: no liburing 2.3 or newer (Debian: apt-get install liburing-dev); "
                 "files go through worker threads only")
endif()
