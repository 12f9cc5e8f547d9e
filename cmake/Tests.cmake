# The tests: one executable per folder of tests/, found by pattern like the library's sources.
#   tests/<name>/**.cpp                  -> test_<name>, GoogleTest
#   tests/support/*.cpp                  -> linked into every test
#   tests/golden_test.cpp, tests/golden/ -> golden_test, its own main, run on tests/goldens
#   tests/registry_sweep.cpp, tests/sweep/ -> registry_sweep, GoogleTest
#   tests/soak/                          -> soak, its own main: hours of training; ctest runs a few seconds of it
#   tests/messages/                      -> programs with one mistake each, for tools/check_messages.sh
#   tests/ranks/                         -> test_ranks, which mpirun starts several times at once (RankTests.cmake)
#   tests/plugin/                        -> programs and plugins that open the library at run time
#   tools/op_table.cpp, tools/op_table/  -> op_table, the program that writes docs/ops.md; test_docs has its code
# A folder that has a CMakeLists.txt is a project of its own and left alone.
include(GoogleTest)
include(JoinedSources)
include(ProgramObjects)
set(mezzo_tests_dir "${PROJECT_SOURCE_DIR}/tests")

# What a test does once need not be fast: without optimisation its compiler takes half the time, and the library that it
# calls is optimised all the same. What the address sanitizer checks is the library: instrumenting the programs that call it
# takes half of the time.
set(mezzo_test_flags "$<$<NOT:$<CONFIG:Debug>>:-O0>" ${MEZZO_NOT_INSTRUMENTED})
set(mezzo_plain_loop_flags "$<$<NOT:$<CONFIG:Debug>>:-O2>" ${MEZZO_NOT_INSTRUMENTED})
# These have kernels of their own. They are instrumented as the library, and optimised a little: the emulated device has
# small stacks.
set(mezzo_kernel_tests test_kernels test_emulated)
# What MEZZO_PROGRAM_OBJECTS does not serve: these, and those that include the headers of CUDA or of the emulated device.
set(mezzo_own_tests ${mezzo_kernel_tests} test_cuda test_nccl)
# Sources that compare with plain loops and have no kernels are optimised. The precompiled header of the tests is not, so
# they cannot use it.
file(GLOB mezzo_plain_loops "${mezzo_tests_dir}/kernels/conv*_test.cpp" "${mezzo_tests_dir}/kernels/gemm*_test.cpp"
  "${mezzo_tests_dir}/ops/norm_hard_inputs_test.cpp" "${mezzo_tests_dir}/ops/norm_support.cpp")
set_source_files_properties(${mezzo_plain_loops} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
  COMPILE_OPTIONS "${mezzo_plain_loop_flags}")
# Programs that sanitizers instrument or that are emulated take a quarter of a second to start, and each process takes its
# time: there, and where another build runs the same tests one by one, a test of ctest is not one test of GoogleTest but one
# of this many parts of a program.
set(mezzo_test_parts 6)

# mezzo_test_target(TARGET): what the programs of the tests are compiled with. The same for all without optimisation, so
# that they share one precompiled header.
function(mezzo_test_target target)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" CXX_EXTENSIONS OFF)
  target_include_directories(${target} PRIVATE "${mezzo_tests_dir}")
  target_compile_definitions(${target} PRIVATE "MEZZO_TEST_DATA=\"${mezzo_tests_dir}\"")
  if(NOT target IN_LIST mezzo_kernel_tests)
    target_compile_options(${target} PRIVATE ${mezzo_test_flags})
  elseif(MEZZO_SANITIZE)
    target_compile_options(${target} PRIVATE ${MEZZO_LOOP_FLAGS})
  else()
    target_compile_options(${target} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  endif()
  target_link_libraries(${target} PRIVATE mezzo mezzo_flags nlohmann_json::nlohmann_json GTest::gtest Threads::Threads)
endfunction()

file(GLOB support_sources CONFIGURE_DEPENDS "${mezzo_tests_dir}/support/*.cpp")
if(MEZZO_PROGRAM_OBJECTS)
  mezzo_compiled_sources(mezzo_support_objects mezzo_test_support ${support_sources})
else()
  add_library(mezzo_test_support OBJECT ${support_sources})
  mezzo_test_target(mezzo_test_support)
  target_precompile_headers(mezzo_test_support PRIVATE "${MEZZO_TESTS_HEADER}")
  set(mezzo_support_objects $<TARGET_OBJECTS:mezzo_test_support>)
endif()

# mezzo_test_executable(NAME SOURCES...): with MEZZO_PROGRAM_OBJECTS its objects are those of the other build, but for
# mezzo_own_tests.
function(mezzo_test_executable name)
  mezzo_joined_sources(sources ${name} ${ARGN})
  if(MEZZO_PROGRAM_OBJECTS AND NOT name IN_LIST mezzo_own_tests)
    mezzo_compiled_sources(sources ${name} ${sources})
  endif()
  add_executable(${name} ${sources} ${mezzo_support_objects})
  mezzo_test_target(${name})
  # For the few joined sources of those with kernels a precompiled header of their own would cost more.
  if(NOT MEZZO_PROGRAM_OBJECTS AND NOT name IN_LIST mezzo_kernel_tests)
    target_precompile_headers(${name} REUSE_FROM mezzo_test_support)
  endif()
endfunction()

function(mezzo_gtest name prefix)
  mezzo_test_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if(MEZZO_SANITIZE OR MEZZO_PROGRAM_OBJECTS OR CMAKE_CROSSCOMPILING)
    math(EXPR last "${mezzo_test_parts} - 1")
    foreach(part RANGE ${last})
      add_test(NAME ${prefix}.part_${part} COMMAND ${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      set_tests_properties(${prefix}.part_${part} PROPERTIES ENVIRONMENT
        "GTEST_TOTAL_SHARDS=${mezzo_test_parts};GTEST_SHARD_INDEX=${part}")
    endforeach()
    return()
  endif()
  # PRE_TEST: tests are listed when ctest starts and not after every link.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES TEST_PREFIX "${prefix}."
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
endfunction()

# The table of all ops; it makes its inputs as the sweep does.
file(GLOB op_table_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/op_table/*.cpp")
list(APPEND op_table_sources "${mezzo_tests_dir}/sweep/case.cpp")
mezzo_test_executable(op_table "${PROJECT_SOURCE_DIR}/tools/op_table.cpp" ${op_table_sources})
target_include_directories(op_table PRIVATE "${PROJECT_SOURCE_DIR}/tools")
set_target_properties(op_table PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tools")

file(GLOB entries LIST_DIRECTORIES true CONFIGURE_DEPENDS "${mezzo_tests_dir}/*")
foreach(entry IN LISTS entries)
  get_filename_component(name "${entry}" NAME)
  if(NOT IS_DIRECTORY "${entry}" OR name MATCHES "^(support|golden|goldens|messages|sweep|emulated_cuda|plugin|soak|ranks)$" OR EXISTS "${entry}/CMakeLists.txt")
    continue()
  endif()
  # tests/cuda asks the CUDA runtime itself, tests/emulated the emulated device. tests/nccl is a program of its own, as it
  # needs several devices.
  if((name STREQUAL "cuda" AND NOT MEZZO_HAVE_CUDA) OR (name STREQUAL "emulated" AND NOT MEZZO_CUDA_EMULATED) OR
      (name STREQUAL "nccl" AND NOT MEZZO_HAVE_NCCL))
    continue()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${entry}/*.cpp")
  # A library that stands before libc, see tests/faults/faults.h; and what only libFuzzer is linked with.
  list(FILTER sources EXCLUDE REGEX "/faults/preload\\.cpp$|/fuzz/coverage_main\\.cpp$")
  if(name STREQUAL "docs")
    list(APPEND sources ${op_table_sources})
  elseif(name STREQUAL "emulated")
    if(NOT MEZZO_HAVE_NCCL)
      list(FILTER sources EXCLUDE REGEX "/nccl_test\\.cpp$")
    endif()
  elseif(name STREQUAL "nccl")
    list(APPEND sources "${mezzo_tests_dir}/dist/rank_threads.cpp")
  endif()
  if(sources)
    mezzo_gtest(test_${name} ${name} ${sources})
    if(name STREQUAL "use" AND TARGET fmt::fmt AND NOT MEZZO_BUNDLE)
      target_link_libraries(test_use PRIVATE fmt::fmt)
    endif()
    if(name MATCHES "^(docs|emulated)$")
      target_include_directories(test_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tools")
    endif()
    if(name MATCHES "^(cuda|emulated|nccl)$")
      mezzo_use_cuda_headers(test_${name})
      if(NOT MEZZO_CUDA_EMULATED)
        target_link_libraries(test_${name} PRIVATE CUDA::cudart_static)
      endif()
    endif()
  endif()
endforeach()

file(GLOB sources CONFIGURE_DEPENDS "${mezzo_tests_dir}/soak/*.cpp")
mezzo_test_executable(soak ${sources})
target_link_libraries(soak PRIVATE ${CMAKE_DL_LIBS})
# Instrumented steps take ten times as long.
set(soak_blocks 8)
if(MEZZO_SANITIZE)
  set(soak_blocks 1)
endif()
add_test(NAME soak COMMAND soak --blocks ${soak_blocks})
set_tests_properties(soak PROPERTIES TIMEOUT 1500)

# What makes calls of the system fail in test_faults and soak. Under a sanitizer nothing fails, as it has a malloc of its
# own.
if(TARGET test_faults AND NOT MEZZO_SANITIZE)
  add_library(mezzo_faults MODULE "${mezzo_tests_dir}/faults/preload.cpp")
  set_target_properties(mezzo_faults PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_features(mezzo_faults PRIVATE cxx_std_20)
  target_compile_options(mezzo_faults PRIVATE -O1)
  target_link_libraries(mezzo_faults PRIVATE mezzo_flags)
  target_include_directories(mezzo_faults PRIVATE "${PROJECT_BINARY_DIR}/include")
  add_dependencies(test_faults mezzo_faults)
  add_dependencies(soak mezzo_faults)
  target_link_libraries(test_faults PRIVATE ${CMAKE_DL_LIBS})
endif()

if(EXISTS "${mezzo_tests_dir}/golden_test.cpp")
  file(GLOB sources CONFIGURE_DEPENDS "${mezzo_tests_dir}/golden/*.cpp")
  mezzo_test_executable(golden_test "${mezzo_tests_dir}/golden_test.cpp" ${sources})
  add_test(NAME golden COMMAND golden_test "${mezzo_tests_dir}/goldens" --strict WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  if(MEZZO_HAVE_CUDA)
    add_test(NAME golden_cuda COMMAND golden_test "${mezzo_tests_dir}/goldens" --device cuda --strict
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(golden_cuda PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()

if(EXISTS "${mezzo_tests_dir}/registry_sweep.cpp")
  file(GLOB sources CONFIGURE_DEPENDS "${mezzo_tests_dir}/sweep/*.cpp")
  mezzo_gtest(registry_sweep sweep "${mezzo_tests_dir}/registry_sweep.cpp" ${sources})
endif()

# What goes another way on older GPUs: 8.6 has no float8, 7.5 has matrix units for f16 alone, 7.0 is taken without.
if(MEZZO_CUDA_EMULATED)
  string(JOIN ":" filter CudaAttention.HeadsThatLieApart CudaAttention.MaskedAndDroppedHalves
    CudaAttention.GradientsOneByOne CudaBf16* CudaGemm* CudaPlans* CudaConv.*Dtype* CudaConv.*Cudnn* CudaConv.*32*
    CudaFloat8*)
  add_test(NAME capability_70.cuda COMMAND test_cuda --gtest_filter=CudaAttention.HeadsThatLieApart:CudaBf16*)
  add_test(NAME capability_75.cuda COMMAND test_cuda "--gtest_filter=${filter}")
  add_test(NAME capability_86.cuda COMMAND test_cuda --gtest_filter=CudaFloat8*)  # the last without float8 products
  add_test(NAME capability_75.sweep COMMAND registry_sweep --gtest_filter=*/matmul:*/linear:*/conv2d:*/lstm_cell)
  add_test(NAME capability_75.golden COMMAND golden_test "${mezzo_tests_dir}/goldens" --device cuda --strict)
  foreach(capability 70 75 86)
    foreach(name cuda sweep golden)
      if(TEST capability_${capability}.${name})
        set_tests_properties(capability_${capability}.${name} PROPERTIES ENVIRONMENT
          "MEZZO_EMULATED_CAPABILITY=${capability}" WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
      endif()
    endforeach()
  endforeach()
endif()

if(TARGET test_core)
  # 0 counts as no number.
  add_test(NAME core.omp_num_threads_0 COMMAND test_core "--gtest_filter=NumThreads.*")
  set_tests_properties(core.omp_num_threads_0 PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=0")
endif()

if(TARGET test_onnx AND NOT MEZZO_SANITIZE)
  add_test(NAME onnx.onnxruntime COMMAND sh -c "command -v python3 >/dev/null || exit 77; exec python3 -B \"$1\" \"$2\"" sh
    "${mezzo_tests_dir}/onnx/run.py" $<TARGET_FILE:test_onnx>)
  set_tests_properties(onnx.onnxruntime PROPERTIES SKIP_RETURN_CODE 77 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
endif()

if(TARGET test_data)
  # Tests of images are skipped in a build without the libraries; not so in one that has them.
  set(codecs "")
  foreach(codec IN ITEMS PNG JPEG)
    if(MEZZO_HAVE_${codec})
      string(TOLOWER "${codec} " codec)
      string(APPEND codecs "${codec}")
    endif()
  endforeach()
  add_test(NAME data.codecs COMMAND test_data "--gtest_filter=Codecs.*")
  set_tests_properties(data.codecs PROPERTIES ENVIRONMENT "MEZZO_FOUND_CODECS=${codecs}")
endif()

# What the preset aarch64 builds and runs, which under qemu-user takes ten times as long.
add_custom_target(aarch64_tests DEPENDS golden_test registry_sweep test_kernels test_amp test_autograd test_optim
  test_threads test_io)

include(PluginTests)
include(RankTests)
if(MEZZO_CUDA_EMULATED AND MEZZO_SANITIZE)
  include(FuzzTests)
endif()

# What is compiled for the baseline.
set(baseline_objects $<TARGET_OBJECTS:mezzo_sample_objects> $<TARGET_OBJECTS:mezzo_sample_loops>
  $<TARGET_OBJECTS:mezzo_objects> $<TARGET_OBJECTS:mezzo_loops>)

# No code for a newer instruction set where the baseline runs. Without optimisation nothing is inlined, and the order of
# the objects (Library.cmake) decides.
if(MEZZO_ISA_VARIANTS MATCHES "v4" AND NOT MEZZO_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(code mezzo)
  if(NOT BUILD_SHARED_LIBS)
    set(code static_objects)  # it is linked with all of the library, which objdump takes minutes for unlinked
  endif()
  add_test(NAME isa_symbols COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_isa.sh" $<TARGET_FILE:${code}>
    base ${baseline_objects} $<TARGET_OBJECTS:mezzo_isa_base>
    wide $<TARGET_OBJECTS:mezzo_isa_v3> $<TARGET_OBJECTS:mezzo_isa_v4> COMMAND_EXPAND_LISTS)
  add_test(NAME isa_symbols_detects COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_isa_test.sh" ${CMAKE_CXX_COMPILER})
  set_tests_properties(isa_symbols isa_symbols_detects PROPERTIES SKIP_RETURN_CODE 77)
  # Which loops a compiler vectorises is its own affair; this one's we know.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\."
      AND CMAKE_BUILD_TYPE STREQUAL "Release" AND "${CMAKE_CXX_FLAGS}${CMAKE_CXX_FLAGS_RELEASE}" STREQUAL "-O2 -DNDEBUG")
    add_test(NAME vectors COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_vectors.sh" $<TARGET_FILE:mezzo>)
    add_test(NAME vectors_detects COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_vectors_test.sh" ${CMAKE_CXX_COMPILER})
    set_tests_properties(vectors vectors_detects PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endif()

# Where there are device compilers, their objects do not have the text that this one looks for.
if(NOT MEZZO_HAVE_CUDA)
  add_test(NAME kernel_sources COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_kernel_sources.sh" ${baseline_objects}
    COMMAND_EXPAND_LISTS)
endif()

# Device code that has to agree with the CPU's to the bit.
if(MEZZO_HAVE_CUDA AND NOT MEZZO_CUDA_EMULATED)
  add_test(NAME device_fma COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_fma.sh" "${CMAKE_CUDA_COMPILER}"
    "${PROJECT_BINARY_DIR}/compile_commands.json")
  add_test(NAME device_fma_detects COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_fma_test.sh" "${CMAKE_CUDA_COMPILER}")
  set_tests_properties(device_fma device_fma_detects PROPERTIES SKIP_RETURN_CODE 77)
endif()

# Layers and lengths of the source tree, and the proof that this check can fail; the scripts. They are the same for every
# build, so one that takes its programs from another leaves them to that one.
if(NOT MEZZO_PROGRAM_OBJECTS)
  add_test(NAME tree COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_tree.sh" "${PROJECT_SOURCE_DIR}")
  add_test(NAME tree_detects COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_tree_test.sh")
  add_test(NAME program_page COMMAND sh "${PROJECT_SOURCE_DIR}/tools/program_page.sh" --check)
  add_test(NAME misuse_table COMMAND sh "${PROJECT_SOURCE_DIR}/tools/misuse_table.sh" --check)
  set_tests_properties(misuse_table PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME mezzo_sh COMMAND sh "${PROJECT_SOURCE_DIR}/tools/mezzo_sh_test.sh")
  add_test(NAME ccache_sh COMMAND sh "${PROJECT_SOURCE_DIR}/tools/ccache_test.sh")
  add_test(NAME cuda_toolkit COMMAND sh "${PROJECT_SOURCE_DIR}/tools/cuda_toolkit_test.sh" "${CMAKE_COMMAND}")
  add_test(NAME gpu_sh COMMAND sh "${PROJECT_SOURCE_DIR}/tools/gpu_test.sh")
  find_program(MEZZO_PYTHON3 python3)
  mark_as_advanced(MEZZO_PYTHON3)
  if(MEZZO_PYTHON3)
    add_test(NAME kernel_report COMMAND ${MEZZO_PYTHON3} -B "${PROJECT_SOURCE_DIR}/tools/kernel_report/test.py")
  endif()
  add_test(NAME bundle_headers COMMAND sh "${PROJECT_SOURCE_DIR}/tools/bundle_headers_test.sh" ${CMAKE_CXX_COMPILER}
    ${mezzo_packages})
  set_tests_properties(bundle_headers PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "CXX_LIBRARY=${MEZZO_SYSTEM_CXX_LIBRARY}")
  add_test(NAME messages COMMAND sh "${PROJECT_SOURCE_DIR}/tools/check_messages.sh" ${CMAKE_CXX_COMPILER}
    "${PROJECT_BINARY_DIR}/include")
  add_test(NAME newcomer_sh COMMAND sh "${PROJECT_SOURCE_DIR}/tools/newcomer_test.sh")
  add_test(NAME compilers_sh COMMAND sh "${PROJECT_SOURCE_DIR}/tools/compilers_test.sh")
endif()

# A sanitizer's build is not for installation: its programs would need the sanitizer's flags.
if(MEZZO_INSTALL AND NOT MEZZO_SANITIZE)
  include(PackageTests)
endif()
