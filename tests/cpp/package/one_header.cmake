# Fails when a public header is not reached from <penstock/penstock.hpp>. Those of detail/ and of floor 1 are no
# program's to name.

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/penstock/*.hpp")
list(FILTER headers EXCLUDE REGEX "^penstock/(detail|io)/")
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
