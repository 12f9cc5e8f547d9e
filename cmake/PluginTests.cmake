# tests/plugin: the library inside programs that were not linked with it, several times in one process, and in objects with
# static storage. A sanitizer would have to be in the program first.
if(MEZZO_SANITIZE)
  return()
endif()
set(plugin_dir "${mezzo_tests_dir}/plugin")

function(mezzo_plugin_target target)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE ${mezzo_test_flags})
endfunction()

add_executable(static_objects "${plugin_dir}/static_objects.cpp")
mezzo_plugin_target(static_objects)
target_link_libraries(static_objects PRIVATE mezzo mezzo_flags Threads::Threads)
foreach(way IN ITEMS return detached exit exit_while_computing quick_exit)
  # Ten times, as threads end in another order each time.
  add_test(NAME plugin.static_objects.${way} COMMAND sh -c
    "for i in 1 2 3 4 5 6 7 8 9 10; do \"$1\" ${way} || exit 1; done" sh $<TARGET_FILE:static_objects>)
  set_tests_properties(plugin.static_objects.${way} PROPERTIES TIMEOUT 60)
endforeach()

find_package(OpenMP QUIET COMPONENTS CXX)
if(TARGET OpenMP::OpenMP_CXX)
  add_executable(openmp_host "${plugin_dir}/openmp_host.cpp")
  mezzo_plugin_target(openmp_host)
  target_link_libraries(openmp_host PRIVATE mezzo mezzo_flags OpenMP::OpenMP_CXX)
  add_test(NAME plugin.openmp_host COMMAND openmp_host)
  set_tests_properties(plugin.openmp_host PROPERTIES TIMEOUT 120)
endif()

add_executable(open_library "${plugin_dir}/open_library.cpp")
target_link_libraries(open_library PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
if(NOT MEZZO_HAVE_CUDA OR MEZZO_CUDA_EMULATED)
  target_compile_definitions(open_library PRIVATE MEZZO_FIXED_THREAD_LOCALS)
endif()
set(plugin_sources "${plugin_dir}/plugin.cpp" "${plugin_dir}/which_library.cpp")
add_library(mezzo_plugin MODULE ${plugin_sources})
mezzo_plugin_target(open_library)
mezzo_plugin_target(mezzo_plugin)
target_link_libraries(mezzo_plugin PRIVATE mezzo mezzo_flags ${CMAKE_DL_LIBS})
if(NOT BUILD_SHARED_LIBS)
  # Many plugins, each with the static library in it. What all libraries together may have of thread-local memory at fixed
  # offsets would not do for them.
  add_test(NAME plugin.many_static COMMAND sh -c "copies= && for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \
    cp \"$2\" \"$2.$i\" && copies=\"$copies $2.$i\" || exit; done; \"$1\" $copies --together mezzo_plugin_train; \
    status=$?; rm $copies; exit $status" sh $<TARGET_FILE:open_library> ./$<TARGET_FILE_NAME:mezzo_plugin>
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  set_tests_properties(plugin.many_static PROPERTIES TIMEOUT 120 ENVIRONMENT OMP_NUM_THREADS=4)
  return()
endif()
add_library(mezzo_probe MODULE "${plugin_dir}/plugin.cpp" "${plugin_dir}/python_module.cpp"
  "${plugin_dir}/dlpack_exchange.cpp")
set_target_properties(mezzo_probe PROPERTIES PREFIX "")
mezzo_plugin_target(mezzo_probe)
target_link_libraries(mezzo_probe PRIVATE mezzo mezzo_flags)

# Two more copies: a plugin that has the static library in it, and one with a libmezzo of another version.
add_library(mezzo_archive STATIC EXCLUDE_FROM_ALL)
add_library(mezzo_other_version SHARED)
foreach(objects IN LISTS mezzo_object_libraries)
  target_sources(mezzo_archive PRIVATE $<TARGET_OBJECTS:${objects}>)
  target_sources(mezzo_other_version PRIVATE $<TARGET_OBJECTS:${objects}>)
endforeach()
set_target_properties(mezzo_archive mezzo_other_version PROPERTIES LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
set_target_properties(mezzo_other_version PROPERTIES OUTPUT_NAME mezzo_other SOVERSION 0.0)
get_target_property(shared_options mezzo LINK_OPTIONS)
target_link_options(mezzo_other_version PRIVATE ${shared_options})
target_link_libraries(mezzo_other_version PRIVATE ${mezzo_link_libraries})
add_library(mezzo_plugin_static MODULE ${plugin_sources})
add_library(mezzo_plugin_other MODULE ${plugin_sources})
foreach(target IN ITEMS mezzo_plugin_static mezzo_plugin_other)
  mezzo_plugin_target(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(${target} PRIVATE mezzo_flags ${mezzo_link_libraries} ${CMAKE_DL_LIBS})
endforeach()
add_dependencies(mezzo_plugin_static mezzo_archive)
target_link_options(mezzo_plugin_static PRIVATE
  "LINKER:--whole-archive,$<TARGET_FILE:mezzo_archive>,--no-whole-archive" 
  LINKER:--exclude-libs,libmezzo_archive.a)
target_link_libraries(mezzo_plugin_other PRIVATE mezzo_other_version)

add_test(NAME plugin.library COMMAND open_library $<TARGET_FILE:mezzo>)
add_test(NAME plugin.plugin COMMAND open_library $<TARGET_FILE:mezzo_plugin> mezzo_plugin_train)
add_test(NAME plugin.one_thread COMMAND open_library $<TARGET_FILE:mezzo_plugin> mezzo_plugin_one_thread)
add_test(NAME plugin.copies COMMAND open_library $<TARGET_FILE:mezzo_plugin> $<TARGET_FILE:mezzo_plugin_static>
  $<TARGET_FILE:mezzo_plugin_other> --together mezzo_plugin_train)
add_test(NAME plugin.copies_in_another_order COMMAND open_library $<TARGET_FILE:mezzo_plugin_other>
  $<TARGET_FILE:mezzo_plugin> $<TARGET_FILE:mezzo_plugin_static> --together mezzo_plugin_train)
add_test(NAME plugin.python COMMAND sh -c "command -v python3 >/dev/null || exit 77; cd \"$1\" && \
  exec python3 -c 'import mezzo_probe, sys; sys.exit(mezzo_probe.trained != 1)'" sh "${PROJECT_BINARY_DIR}/tests")
add_test(NAME plugin.dlpack COMMAND sh -c "command -v python3 >/dev/null || exit 77; exec python3 -B \"$1\" \"$2\"" sh
  "${plugin_dir}/dlpack.py" "${PROJECT_BINARY_DIR}/tests")
set_tests_properties(plugin.library plugin.plugin plugin.one_thread plugin.copies plugin.copies_in_another_order plugin.python plugin.dlpack
  PROPERTIES
  SKIP_RETURN_CODE 77 TIMEOUT 120 ENVIRONMENT OMP_NUM_THREADS=4)

# A library with oneDNN's inline functions, which it exports as LibTorch exports those of its own: who calls them is ended.
# oneDNN multiplies beside it; where it cannot be kept apart, as the program has an allocator of its own, Eigen does.
if(MEZZO_ONEDNN_OPENED)
  execute_process(COMMAND "${CMAKE_NM}" -D --defined-only "${oneDNN_LIBRARY}" OUTPUT_VARIABLE names)
  string(REGEX MATCHALL " W [^@\n]*dnnl[^@\n]*" names "${names}")
  set(code "// Generated by cmake/PluginTests.cmake.\n")
  set(number 0)
  foreach(name IN LISTS names)
    string(SUBSTRING "${name}" 3 -1 name)
    string(APPEND code "extern \"C\" void f${number}() __asm__(\"${name}\");\n"
      "extern \"C\" void f${number}() { __builtin_trap(); }\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/foreign_onednn.cpp" CONTENT "${code}" @ONLY)
endif()
if(MEZZO_ONEDNN_OPENED AND number GREATER 0)
  add_library(mezzo_foreign MODULE "${PROJECT_BINARY_DIR}/foreign_onednn.cpp")
  add_library(mezzo_foreign_allocator MODULE "${PROJECT_BINARY_DIR}/foreign_onednn.cpp" "${plugin_dir}/allocator.cpp")
  mezzo_plugin_target(mezzo_foreign)
  mezzo_plugin_target(mezzo_foreign_allocator)
  add_test(NAME plugin.foreign_onednn COMMAND open_library $<TARGET_FILE:mezzo_plugin> mezzo_plugin_one_thread)
  add_test(NAME plugin.foreign_onednn_and_allocator COMMAND sh -c
    "\"$@\" >foreign.txt 2>&1; status=$?; cat foreign.txt; grep -q 'mixed with another oneDNN' foreign.txt && exit $status"
    sh $<TARGET_FILE:open_library> $<TARGET_FILE:mezzo_plugin> mezzo_plugin_one_thread)
  set_tests_properties(plugin.foreign_onednn plugin.foreign_onednn_and_allocator PROPERTIES TIMEOUT 120)
  set_tests_properties(plugin.foreign_onednn PROPERTIES
    ENVIRONMENT "MEZZO_CPU_GEMM=onednn;LD_PRELOAD=$<TARGET_FILE:mezzo_foreign>")
  set_tests_properties(plugin.foreign_onednn_and_allocator PROPERTIES
    ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:mezzo_foreign_allocator>" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endif()
