# penstock._uring: io_uring for Python without an event loop. It is a separate module because _core needs asyncio and
# this one liburing; where liburing is missing, everything else is built.

include(PenstockLiburing)

if(NOT PENSTOCK_LIBURING)
  message(STATUS "Penstock: without liburing penstock._uring is not built")
  return()
endif()

file(GLOB penstock_uring_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/uring_ext/*.cpp")
Python_add_library(penstock_uring MODULE WITH_SOABI ${penstock_uring_sources})
set_target_properties(penstock_uring PROPERTIES OUTPUT_NAME _uring)
# As a system header: it is C code that C++ compilers warn about.
target_include_directories(penstock_uring SYSTEM PRIVATE "${PENSTOCK_LIBURING_INCLUDE}")
# Only the used part of penstock_io is linked: fork detection.
target_link_libraries(penstock_uring PRIVATE penstock_io "${PENSTOCK_LIBURING}")
penstock_configure_extension(penstock_uring)
install(TARGETS penstock_uring COMPONENT python LIBRARY DESTINATION penstock)
