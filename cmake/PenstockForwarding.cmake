# The headers that were directly in <penstock/> up to 0.1. Each includes the one in its folder now. They are generated: the
# library itself, its tests and examples cannot use them. To be removed in the release after the next.

set(penstock_forwarding "${PROJECT_BINARY_DIR}/forwarding")
set(penstock_headers_of_bridge adapt block_on cpu_pool promise run_on to_thread wait_ready)
set(penstock_headers_of_stream any_stream buf_reader buf_writer bytes chunk copy memory_stream pipe read_all stream)
set(penstock_headers_of_sync channel channel_ends)
set(penstock_headers_of_task all all_settled any async_generator canceller concurrent deadline generator operation_base race
                             run scope shield sleep task task_context task_trace timeout unwrap yield)
foreach(folder IN ITEMS bridge stream sync task)
  foreach(name IN LISTS penstock_headers_of_${folder})
    file(CONFIGURE OUTPUT "${penstock_forwarding}/penstock/${name}.hpp"
         CONTENT "// The former name of <penstock/${folder}/${name}.hpp>.\n#pragma once\n\n#include <penstock/${folder}/${name}.hpp>\n")
  endforeach()
endforeach()

install(DIRECTORY "${penstock_forwarding}/penstock" COMPONENT cpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT PROJECT_IS_TOP_LEVEL)
  target_include_directories(penstock INTERFACE $<BUILD_INTERFACE:${penstock_forwarding}>)
endif()
