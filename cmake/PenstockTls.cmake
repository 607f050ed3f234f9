# penstock::tls: encrypted streams of the coroutine library, on OpenSSL 3, where its headers are installed.

find_package(OpenSSL 3.0 QUIET)
if(NOT OPENSSL_FOUND)
  message(STATUS "Penstock: no OpenSSL 3 (Debian: apt-get install libssl-dev); penstock::tls is not built")
  return()
endif()

file(GLOB_RECURSE penstock_tls_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/tls/*.cpp")
add_library(penstock_tls STATIC ${penstock_tls_sources})
add_library(penstock::tls ALIAS penstock_tls)
set_target_properties(penstock_tls PROPERTIES EXPORT_NAME tls)
# Flags, not files: installed files may be used on another machine.
target_link_libraries(penstock_tls PUBLIC penstock
  PRIVATE "$<BUILD_INTERFACE:OpenSSL::SSL>" "$<INSTALL_INTERFACE:-lssl>" "$<INSTALL_INTERFACE:-lcrypto>")
target_include_directories(penstock_tls PRIVATE "${PROJECT_SOURCE_DIR}/src")
penstock_configure_target(penstock_tls 23)

install(TARGETS penstock_tls EXPORT penstock-targets COMPONENT cpp
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
