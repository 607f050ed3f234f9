# A Debian package of the C++ library, and the same files as an archive: run cpack in the build folder.

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME libpenstock-dev)
set(CPACK_PACKAGE_VENDOR "The Penstock authors")
set(CPACK_PACKAGE_CONTACT "The Penstock authors") # CPack demands one; there is no address to name
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)

# Headers and static libraries only; the extension modules belong to the wheel. One package for the only component.
set(CPACK_COMPONENTS_ALL cpp)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}
 Headers and static libraries: an event loop, codecs for HTTP and WebSocket, and coroutines for sockets, TLS, files,
 child processes and serial ports.")
# What the libraries of the components need; the compiler is the user's choice.
set(penstock_depends libc6-dev)
if(PENSTOCK_LIBURING)
  list(APPEND penstock_depends "liburing-dev (>= 2.3)")
endif()
if(TARGET penstock_deflate)
  list(APPEND penstock_depends zlib1g-dev)
endif()
if(TARGET penstock_tls)
  list(APPEND penstock_depends "libssl-dev (>= 3.0)")
endif()
if(TARGET penstock_http_client)
  list(APPEND penstock_depends "libcurl4-openssl-dev (>= 7.87) | libcurl4-gnutls-dev (>= 7.87)")
endif()
list(JOIN penstock_depends ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "clang-19, cmake, pkg-config")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" COMPONENT cpp DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libpenstock-dev"
        RENAME copyright)

include(CPack)
