# The fuzz targets under libFuzzer in a build that has g++'s sanitizers anyway, 10 s each on the stored corpus. libFuzzer is
# clang's, what guides it g++'s: all sources without inner loops count their branches, so readers, states and the checks of
# ops do. For hours there is the preset fuzz, where everything does (./mezzo.sh fuzz). libFuzzer ends in the second after
# the last one of -max_total_time.
find_program(MEZZO_CLANG NAMES clang++-14 clang++)
set(mezzo_libfuzzer "")
if(MEZZO_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND "${MEZZO_CLANG}" --print-file-name=libclang_rt.fuzzer-${CMAKE_SYSTEM_PROCESSOR}.a
    OUTPUT_VARIABLE mezzo_libfuzzer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${mezzo_libfuzzer}")
  message(STATUS "libFuzzer is not there: no fuzz tests (./mezzo.sh setup installs clang, which has it)")
  return()
endif()

# For the whole targets, as a source with options of its own is compiled alone (MEZZO_JOIN_SOURCES).
target_compile_options(mezzo_sample_objects PRIVATE -fsanitize-coverage=trace-pc)
target_compile_options(mezzo_objects PRIVATE -fsanitize-coverage=trace-pc)

add_executable(fuzz_targets "${mezzo_tests_dir}/fuzz/coverage_main.cpp")
mezzo_test_target(fuzz_targets)
if(MEZZO_PROGRAM_OBJECTS)
  get_target_property(objects test_fuzz SOURCES)
  target_sources(fuzz_targets PRIVATE ${objects})
else()
  target_sources(fuzz_targets PRIVATE $<TARGET_OBJECTS:test_fuzz> ${mezzo_support_objects})
endif()
target_link_libraries(fuzz_targets PRIVATE "${mezzo_libfuzzer}")
include(FuzzTargets)
foreach(target IN LISTS mezzo_fuzz_targets)
  set(found "${PROJECT_BINARY_DIR}/fuzz/${target}")
  file(MAKE_DIRECTORY "${found}")
  add_test(NAME fuzz.${target} COMMAND fuzz_targets -seed=1 -max_total_time=9 -max_len=4096 -timeout=1200
    -rss_limit_mb=4096 -malloc_limit_mb=0 "-artifact_prefix=${PROJECT_BINARY_DIR}/fuzz/${target}-" "${found}"
    "${mezzo_tests_dir}/fuzz/corpus/${target}")
  set_tests_properties(fuzz.${target} PROPERTIES TIMEOUT 600
    ENVIRONMENT "MEZZO_FUZZ_TARGET=${target};ASAN_OPTIONS=max_allocation_size_mb=256:allocator_may_return_null=1")
endforeach()
