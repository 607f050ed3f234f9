# Fails when a public header is not reached from <penstock/penstock.hpp>. A program names neither those in
# a detail/ folder nor those of floor 1. <penstock/tls/...> and <penstock/http/client...> belong to libraries of their
# own.

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/penstock/*.hpp")
list(FILTER headers EXCLUDE REGEX "/detail/|^penstock/(io|codec|tls)/|^penstock/http/client")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")
execute_process(
  COMMAND "${COMPILER}" ${flags} -std=c++23 "-I${INCLUDE}" -MM -x c++ "${INCLUDE}/penstock/penstock.hpp"
  OUTPUT_VARIABLE reached COMMAND_ERROR_IS_FATAL ANY)
foreach(header IN LISTS headers)
  string(FIND "${reached}" "${INCLUDE}/${header}" place)
  if(place EQUAL -1)
    message(SEND_ERROR "<penstock/penstock.hpp> does not include <${header}>")
  endif()
endforeach()
