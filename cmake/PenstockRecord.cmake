# penstock._record: the native half of penstock.record. It is a separate module because _core needs asyncio, and
# recordings are read and written without an event loop too.

file(GLOB penstock_record_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/record_ext/*.cpp")
Python_add_library(penstock_record MODULE WITH_SOABI ${penstock_record_sources})
set_target_properties(penstock_record PROPERTIES OUTPUT_NAME _record)
penstock_configure_extension(penstock_record)
install(TARGETS penstock_record COMPONENT python LIBRARY DESTINATION penstock)
