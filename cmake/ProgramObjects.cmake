# mezzo_compiled_sources(RESULT TARGET SOURCES...): the objects that another build, MEZZO_PROGRAM_OBJECTS, made of these
# sources of this program. They call the library and hold none of it, so that any build's library serves them.
function(mezzo_compiled_sources result target)
  set(objects "")
  foreach(source IN LISTS ARGN)
    string(REPLACE "${PROJECT_BINARY_DIR}/" "" path "${source}")
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" path "${path}")
    set(object "${MEZZO_PROGRAM_OBJECTS}/CMakeFiles/${target}.dir/${path}.o")
    if(NOT EXISTS "${object}")
      message(FATAL_ERROR "MEZZO_PROGRAM_OBJECTS: expected ${object}, got no such file; build all of "
        "${MEZZO_PROGRAM_OBJECTS} first, or configure with -DMEZZO_PROGRAM_OBJECTS=")
    endif()
    list(APPEND objects "${object}")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON)
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
