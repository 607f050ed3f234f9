# penstock_codec: HTTP/1.1 and WebSocket as sans-IO codecs. On floor 1's level, without Python and coroutines, and without
# the event loop. penstock_deflate adds permessage-deflate on zlib, where zlib is installed.

file(GLOB_RECURSE penstock_codec_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/codec/*.cpp")
set(penstock_deflate_sources ${penstock_codec_sources})
list(FILTER penstock_codec_sources EXCLUDE REGEX "/zlib_")
list(FILTER penstock_deflate_sources INCLUDE REGEX "/zlib_")

include(GNUInstallDirs)

function(penstock_add_codec target name)
  add_library(${target} STATIC ${ARGN})
  add_library(penstock::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:include>
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
  penstock_configure_target(${target} 20)
  install(TARGETS ${target} EXPORT penstock-targets COMPONENT cpp
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

penstock_add_codec(penstock_codec codec ${penstock_codec_sources})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/penstock/codec" COMPONENT cpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)

find_path(PENSTOCK_ZLIB_INCLUDE zlib.h)
find_library(PENSTOCK_ZLIB NAMES z)
mark_as_advanced(PENSTOCK_ZLIB_INCLUDE PENSTOCK_ZLIB)
if(PENSTOCK_ZLIB_INCLUDE AND PENSTOCK_ZLIB)
  penstock_add_codec(penstock_deflate deflate ${penstock_deflate_sources})
  target_include_directories(penstock_deflate SYSTEM PRIVATE "${PENSTOCK_ZLIB_INCLUDE}")
  # The flag, not the file: installed files may be used on another machine.
  target_link_libraries(penstock_deflate PUBLIC penstock_codec
    PRIVATE "$<BUILD_INTERFACE:${PENSTOCK_ZLIB}>" "$<INSTALL_INTERFACE:-lz>")
else()
  message(STATUS "Penstock: no zlib (Debian: apt-get install zlib1g-dev); WebSocket works without compression")
endif()
