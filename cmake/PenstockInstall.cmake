# Files for find_package(penstock) and pkg-config.

include(CMakePackageConfigHelpers)

set(penstock_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/penstock")

install(EXPORT penstock-targets NAMESPACE penstock:: COMPONENT cpp DESTINATION "${penstock_package_dir}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake.in" "${PROJECT_BINARY_DIR}/penstock-config.cmake"
  INSTALL_DESTINATION "${penstock_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/penstock-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/penstock-config.cmake" "${PROJECT_BINARY_DIR}/penstock-config-version.cmake"
        COMPONENT cpp DESTINATION "${penstock_package_dir}")

# Both libraries are static, so their dependencies are listed even without --static.
set(penstock_pc_liburing "")
if(PENSTOCK_LIBURING)
  set(penstock_pc_liburing " ${PENSTOCK_LIBURING_FLAG}")
endif()
# An installed tree can be moved: the file derives the prefix from its own location.
file(RELATIVE_PATH penstock_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" penstock_pc_to_prefix "${penstock_pc_to_prefix}")
set(penstock_packages penstock penstock-codec)
if(TARGET penstock_deflate)
  list(APPEND penstock_packages penstock-deflate)
endif()
if(TARGET penstock_tls)
  list(APPEND penstock_packages penstock-tls)
endif()
if(TARGET penstock_http_client)
  list(APPEND penstock_packages penstock-http-client)
endif()
foreach(package IN LISTS penstock_packages)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in" "${PROJECT_BINARY_DIR}/${package}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${package}.pc" COMPONENT cpp DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
