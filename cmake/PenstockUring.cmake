# penstock._uring: io_uring for Python without an event loop. A module of its own: _core needs asyncio, this
# needs liburing, and where there is none the rest is built all the same.

include(PenstockLiburing)

if(NOT PENSTOCK_LIBURING)
  message(STATUS "Penstock: without liburing penstock._uring is not built")
  return()
endif()

file(GLOB penstock_uring_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/ext/uring_*.cpp")
Python_add_library(penstock_uring MODULE WITH_SOABI ${penstock_uring_sources})
set_target_properties(penstock_uring PROPERTIES OUTPUT_NAME _uring)
# As a system header: it is C, with what C++ calls extensions.
target_include_directories(penstock_uring SYSTEM PRIVATE "${PENSTOCK_LIBURING_INCLUDE}")
target_include_directories(penstock_uring PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(penstock_uring PRIVATE "${PENSTOCK_LIBURING}")
penstock_configure_target(penstock_uring 20)
target_compile_options(penstock_uring PRIVATE -Wno-missing-field-initializers)
target_link_options(penstock_uring PRIVATE -Wl,--exclude-libs,ALL)
penstock_hold_ended_threads(penstock_uring)
install(TARGETS penstock_uring COMPONENT python LIBRARY DESTINATION penstock)
