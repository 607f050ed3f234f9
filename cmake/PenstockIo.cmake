# penstock_io: poller, timers, ready work, wake-up, signals, files. Floor 1, without Python and coroutines.

file(GLOB_RECURSE penstock_io_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/io/*.cpp")

if(NOT penstock_io_sources)
  message(STATUS "Penstock: no sources in src/io, penstock_io is not built")
  return()
endif()

find_package(Threads REQUIRED)
include(PenstockLiburing)
if(NOT PENSTOCK_LIBURING)
  list(FILTER penstock_io_sources EXCLUDE REGEX "/uring[^/]*$")
endif()

add_library(penstock_io STATIC ${penstock_io_sources})
add_library(penstock::io ALIAS penstock_io)
set_target_properties(penstock_io PROPERTIES EXPORT_NAME io)
target_include_directories(penstock_io
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
         $<INSTALL_INTERFACE:include>
  PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(penstock_io PUBLIC Threads::Threads)
if(PENSTOCK_LIBURING)
  target_compile_definitions(penstock_io PRIVATE PENSTOCK_HAS_URING=1)
  target_include_directories(penstock_io SYSTEM PRIVATE "${PENSTOCK_LIBURING_INCLUDE}")
  target_link_libraries(penstock_io PRIVATE
    "$<BUILD_INTERFACE:${PENSTOCK_LIBURING}>" "$<INSTALL_INTERFACE:${PENSTOCK_LIBURING_FLAG}>")
endif()
penstock_configure_target(penstock_io 20)

include(GNUInstallDirs)
install(TARGETS penstock_io EXPORT penstock-targets COMPONENT cpp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/penstock/io" COMPONENT cpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)
