# penstock::http_client: the HTTP client of the coroutine library, on libcurl and zlib, where their headers are
# installed.

# The oldest that ends a cancelled request without waiting for the resolver's thread.
find_package(CURL 7.87 QUIET)
if(NOT CURL_FOUND)
  message(STATUS "Penstock: no libcurl 7.87 or newer (Debian: apt-get install libcurl4-openssl-dev); "
                 "penstock::http_client is not built")
  return()
endif()
# PENSTOCK_ZLIB: found in PenstockCodec.cmake.
if(NOT TARGET penstock_deflate)
  message(STATUS "Penstock: no zlib (Debian: apt-get install zlib1g-dev); penstock::http_client is not built")
  return()
endif()

file(GLOB_RECURSE penstock_http_client_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/http/client/*.cpp")
add_library(penstock_http_client STATIC ${penstock_http_client_sources})
add_library(penstock::http_client ALIAS penstock_http_client)
set_target_properties(penstock_http_client PROPERTIES EXPORT_NAME http_client)
# Flags, not files: installed files may be used on another machine.
target_link_libraries(penstock_http_client PUBLIC penstock
  PRIVATE "$<BUILD_INTERFACE:CURL::libcurl;${PENSTOCK_ZLIB}>" "$<INSTALL_INTERFACE:-lcurl;-lz>")
target_include_directories(penstock_http_client SYSTEM PRIVATE "${PENSTOCK_ZLIB_INCLUDE}")
target_include_directories(penstock_http_client PRIVATE "${PROJECT_SOURCE_DIR}/src")
penstock_configure_target(penstock_http_client 23)

install(TARGETS penstock_http_client EXPORT penstock-targets COMPONENT cpp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
