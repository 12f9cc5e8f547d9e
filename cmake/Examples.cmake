# The examples: every folder examples/<name>/ is the program <name>, put into <build>/examples. Left alone are folders that
# are projects of their own, by a CMakeLists.txt in them or one below (examples/consumers). A folder in
# `folders_of_programs` is a collection instead: each of its sources is a program, put into <build>/examples/<folder>.
set(folders_of_programs amp from_pytorch)
# The bundle runs where libfmt.so may be missing.
set(mezzo_fmt fmt::fmt)
if(MEZZO_BUNDLE)
  set(mezzo_fmt fmt::fmt-header-only)
endif()

include(ProgramObjects)

# mezzo_example(PROGRAM SOURCES...): with MEZZO_PROGRAM_OBJECTS its objects are those of the other build.
function(mezzo_example program)
  set(sources ${ARGN})
  if(MEZZO_PROGRAM_OBJECTS)
    mezzo_compiled_sources(sources ${program} ${ARGN})
  endif()
  add_executable(${program} ${sources})
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX CXX_EXTENSIONS OFF)
  target_link_libraries(${program} PRIVATE mezzo_flags Threads::Threads)
endfunction()

file(GLOB entries LIST_DIRECTORIES true CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*")
foreach(entry IN LISTS entries)
  file(GLOB sources CONFIGURE_DEPENDS "${entry}/*.cpp")
  file(GLOB projects CONFIGURE_DEPENDS "${entry}/CMakeLists.txt" "${entry}/*/CMakeLists.txt")
  if(NOT IS_DIRECTORY "${entry}" OR NOT sources OR projects)
    continue()
  endif()
  get_filename_component(name "${entry}" NAME)
  if(name IN_LIST folders_of_programs)
    # These need nothing but mezzo, as the programs of its users. Nothing is timed in them.
    set(first "")
    foreach(source IN LISTS sources)
      get_filename_component(program "${source}" NAME_WE)
      mezzo_example(${name}_${program} "${source}")
      set_target_properties(${name}_${program} PROPERTIES OUTPUT_NAME ${program}
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples/${name}")
      target_link_libraries(${name}_${program} PRIVATE mezzo)
      target_compile_options(${name}_${program} PRIVATE -O0)
      if(NOT MEZZO_PROGRAM_OBJECTS AND NOT first)
        set(first ${name}_${program})
        target_precompile_headers(${first} PRIVATE <mezzo/mezzo.h>)
      elseif(NOT MEZZO_PROGRAM_OBJECTS)
        target_precompile_headers(${name}_${program} REUSE_FROM ${first})
      endif()
    endforeach()
    continue()
  endif()
  mezzo_example(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  # Reading options and printing reports is not what is timed, and without optimisation compiles in half the time.
  list(FILTER sources INCLUDE REGEX "/(main|report|plot|svg)\\.cpp$")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -O0)
  target_compile_options(${name} PRIVATE ${MEZZO_NOT_INSTRUMENTED})
  # The emulation of CUDA's libraries looks for libmezzo in the process, and a bundle has it anyway.
  if(name STREQUAL "mlp_timing" AND NOT MEZZO_CUDA_EMULATED AND NOT MEZZO_BUNDLE)
    mezzo_link_sample(${name})
  else()
    target_link_libraries(${name} PRIVATE mezzo)
  endif()
  target_link_libraries(${name} PRIVATE CLI11::CLI11 ${mezzo_fmt})
endforeach()
