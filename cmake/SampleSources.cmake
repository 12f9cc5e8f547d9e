# What the timing sample (examples/mlp_timing) is linked with, and so all that `./mezzo.sh demo` compiles: the sources of
# the library that its Linear, ReLU, MSE, SGD, autocast and scaler need. libmezzo has these and all others.
# What a linker asks for depends on what the compiler inlines, and kernels for a device ask for more. So the sample is
# linked in this way in the build that the tests watch, g++ 12 in Release on x86-64 without flags of the user's, and with
# libmezzo in all others.
# A linker error in mlp_timing (undefined reference) names a function whose file belongs here. The test sample_sources
# (tools/check_sample_sources.sh) names files that nothing in the sample needs any more.
set(MEZZO_USUAL_COMPILER OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\."
    AND CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_CXX_FLAGS STREQUAL "" AND CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O2 -DNDEBUG"
    AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT MEZZO_SANITIZE)
  set(MEZZO_USUAL_COMPILER ON)
endif()
set(MEZZO_SMALL_SAMPLE OFF)
if(MEZZO_USUAL_COMPILER AND MEZZO_HAVE_ONEDNN AND NOT MEZZO_HAVE_CUDA)
  set(MEZZO_SMALL_SAMPLE ON)
endif()
set(mezzo_sample_files
  amp: autocast captured_step grad_scaler grad_scaler_state policy
  autograd: attrs bind checkpoint decomposed engine finite_proof grad_mode gradient_locks gradient_receiver half_copy leaf_cast leaf_lock
    node op_observer region registry tensor_autograd
  autograd/recorded: copies gradients
  core: backend cuda dims dtype error function inference_mode layout promotion random storage tensor threads value warning
  core/memory: allocator memory_limit per_thread pool stream_mark
  core/parallel: cgroup processors thread_pool
  core/random: draw_recorder
  core/replay: recording
  core/text: value_text
  io: json
  io/detail: file json_scanner value_builder
  kernels: device_kernel
  kernels/cpu: convert isa onednn rows strided_copy tile
  kernels/gemm: cpu cpu_bf16 cpu_blocked cpu_loops cpu_onednn gemm
  kernels/optim: cpu_update
  kernels/pointwise: cpu
  kernels/reduce: cpu_direct_sum cpu_plan cpu_source
  kernels/scaler: cpu
  nn/layers: layer_support linear
  nn/module: call cloning convert hooks module module_slots print sequential
  ops/factory: factory random
  ops/linalg: linear matmul product
  ops/loss: common regression
  ops/pointwise: activation binary compare inplace scalar unary
  ops/reduce: common reduction
  ops/shape: cast methods view
  optim: optimizer optimizer_state recorded_updates sgd)
if(NOT MEZZO_HAVE_CUDA)
  list(APPEND mezzo_sample_files core/no_cuda: streams)
endif()

# mezzo_split_sample_sources(SOURCES IN_SAMPLE): moves what the list names from one variable to the other.
function(mezzo_split_sample_sources sources in_sample)
  set(rest ${${sources}})
  set(chosen "")
  foreach(word IN LISTS mezzo_sample_files)
    if(word MATCHES "^(.*):$")
      set(folder "${CMAKE_MATCH_1}")
      continue()
    endif()
    set(file "${PROJECT_SOURCE_DIR}/${folder}/${word}.cpp")
    if(NOT file IN_LIST rest)
      set(file "${PROJECT_SOURCE_DIR}/${folder}/${word}.cu")
    endif()
    if(NOT file IN_LIST rest)
      message(FATAL_ERROR "mezzo: cmake/SampleSources.cmake names ${folder}/${word}, which is not a source of the library")
    endif()
    list(REMOVE_ITEM rest "${file}")
    list(APPEND chosen "${file}")
  endforeach()
  set(${sources} "${rest}" PARENT_SCOPE)
  set(${in_sample} "${chosen}" PARENT_SCOPE)
endfunction()
