# Fails when a public header is not reached from <penstock/penstock.hpp>, <penstock/http.hpp> or <penstock/ws.hpp>, or
# when the first one includes the others' headers, which would make every program slower to compile. A program names
# neither those in a detail/ folder nor those of floor 1. <penstock/tls/...> and <penstock/http/client...> belong to
# libraries of their own, <penstock/http/nlohmann_json.hpp> to those who have that library.

separate_arguments(flags UNIX_COMMAND "${FLAGS}")
# The public headers that a header reaches, itself included, in VARIABLE.
function(reached_from header variable)
  execute_process(
    COMMAND "${COMPILER}" ${flags} -std=c++23 "-I${INCLUDE}" -MM -x c++ "${INCLUDE}/penstock/${header}"
    OUTPUT_VARIABLE reached COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${reached} " PARENT_SCOPE)
endfunction()
reached_from(penstock.hpp by_first)
reached_from(http.hpp by_http)
reached_from(ws.hpp by_ws)

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/penstock/*.hpp")
list(FILTER headers EXCLUDE REGEX "/detail/|^penstock/(io|codec|tls)/|^penstock/http/(client|nlohmann_json)")
foreach(header IN LISTS headers)
  string(FIND "${by_first} ${by_http} ${by_ws}" "${INCLUDE}/${header}" place)
  if(place EQUAL -1)
    message(SEND_ERROR "none of penstock.hpp, http.hpp and ws.hpp includes <${header}>")
  endif()
endforeach()
if(by_first MATCHES "/penstock/(http|ws|codec)[/.]")
  message(SEND_ERROR "<penstock/penstock.hpp> includes HTTP or WebSocket")
endif()
