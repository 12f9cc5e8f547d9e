# Finds oneDNN by its header and library. Debian's own package config is not used: it demands OpenCL headers that the
# package does not bring, and fails with a hard error even under QUIET.
# Gives oneDNN_FOUND, oneDNN_VERSION, oneDNN_SONAME (the name that programs find it by, empty for a static one) and the
# target oneDNN::dnnl.
find_path(oneDNN_INCLUDE_DIR dnnl.h)
find_library(oneDNN_LIBRARY dnnl)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)

set(oneDNN_VERSION "")
foreach(header IN ITEMS oneapi/dnnl/dnnl_version.h dnnl_version.h)
  if(oneDNN_INCLUDE_DIR AND NOT oneDNN_VERSION AND EXISTS "${oneDNN_INCLUDE_DIR}/${header}")
    file(STRINGS "${oneDNN_INCLUDE_DIR}/${header}" lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
    string(REGEX REPLACE "[^0-9;]" "" oneDNN_VERSION "${lines}")
    string(REPLACE ";" "." oneDNN_VERSION "${oneDNN_VERSION}")
  endif()
endforeach()

set(oneDNN_SONAME "")
if(oneDNN_LIBRARY AND CMAKE_READELF)
  execute_process(COMMAND "${CMAKE_READELF}" -d "${oneDNN_LIBRARY}" OUTPUT_VARIABLE dynamic ERROR_QUIET)
  if(dynamic MATCHES "[(]SONAME[)][^[]*[[]([^]]+)[]]")
    set(oneDNN_SONAME "${CMAKE_MATCH_1}")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR VERSION_VAR oneDNN_VERSION)

if(oneDNN_FOUND AND NOT TARGET oneDNN::dnnl)
  add_library(oneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(oneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION "${oneDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()
