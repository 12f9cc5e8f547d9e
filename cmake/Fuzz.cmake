# The fuzz targets of tests/fuzz as programs of libFuzzer: fuzz_json, fuzz_op, ... (tests/fuzz/targets.h says what each
# checks). The readers of bytes need few sources of the library, and are linked with these alone, so that CI can afford to
# compile them instrumented; the others take all of it.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR NOT MEZZO_SANITIZE MATCHES "fuzzer-no-link")
  message(FATAL_ERROR "mezzo: MEZZO_BUILD_FUZZ expects clang and MEZZO_SANITIZE=fuzzer-no-link,address,undefined, got "
    "${CMAKE_CXX_COMPILER_ID} and '${MEZZO_SANITIZE}'; configure with cmake --preset fuzz")
endif()
set(mezzo_fuzz_dir "${PROJECT_SOURCE_DIR}/tests/fuzz")
include(FuzzTargets)

# mezzo_fuzz_program(TARGET SOURCES...): libFuzzer's main calls fuzz_<TARGET>.
function(mezzo_fuzz_program target)
  set(entry "${PROJECT_BINARY_DIR}/fuzz/${target}.cpp")
  file(CONFIGURE OUTPUT "${entry}" CONTENT "#include \"mezzo/tests/fuzz/targets.h\"
extern \"C\" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return mezzo::fuzz::fuzz_${target}(data, size);
}
" @ONLY)
  set(program fuzz_${target})
  add_executable(${program} "${entry}" "${mezzo_fuzz_dir}/${target}.cpp"
    "${PROJECT_SOURCE_DIR}/tests/support/sanitizer_options.cpp" ${ARGN})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz" CXX_EXTENSIONS OFF)
  target_compile_features(${program} PRIVATE cxx_std_20)
  target_include_directories(${program} PRIVATE "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(${program} PRIVATE mezzo_flags nlohmann_json::nlohmann_json Threads::Threads)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
endfunction()

foreach(target IN LISTS mezzo_fuzz_reader_targets)
  mezzo_fuzz_program(${target} $<TARGET_OBJECTS:mezzo_fuzz_readers>)
endforeach()
foreach(target IN LISTS mezzo_fuzz_library_targets)
  mezzo_fuzz_program(${target} ${mezzo_fuzz_${target}_sources})
  target_link_libraries(fuzz_${target} PRIVATE mezzo)
endforeach()
target_sources(fuzz_state PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/algorithms.cpp")

# What json and safetensors need. A linker error in one of them names a function whose source belongs here.
set(mezzo_reader_sources core/dims core/error core/layout core/memory/pool core/value core/text/value_text io/json
  io/safetensors io/detail/file io/detail/json_scanner io/detail/safetensors_header)
list(TRANSFORM mezzo_reader_sources REPLACE ".+" "${PROJECT_SOURCE_DIR}/\\0.cpp")
mezzo_object_library(mezzo_fuzz_readers ${mezzo_reader_sources})
set_target_properties(mezzo_fuzz_readers PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH)
add_custom_target(fuzz_readers DEPENDS fuzz_json fuzz_safetensors)
list(TRANSFORM mezzo_fuzz_targets PREPEND fuzz_ OUTPUT_VARIABLE programs)
add_custom_target(fuzz DEPENDS ${programs})
