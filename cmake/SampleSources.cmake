# The part of the library that stands by itself: what tensors, Linear, ReLU, MSE, SGD, autocast and scaler need. The timing
# sample (examples/mlp_timing) is linked with it in place of libmezzo, which has this part and all others, so
# `./mezzo.sh demo` compiles nothing else.
# Folders are in it with all their sources, those of the device too where CUDA is built; of other folders it has the named
# files. Whatever a function here refers to is here as well, called or not: so the linker is content whatever a compiler
# inlines, and a build without optimisation shows what is missing (undefined reference in mlp_timing).
set(mezzo_sample_folders core autograd kernels/cpu kernels/cuda kernels/gemm kernels/optim kernels/pointwise kernels/quantize
  kernels/reduce kernels/scaler ops/factory)
set(mezzo_sample_files
  amp: autocast captured_step float8 grad_scaler grad_scaler_state policy
  io: json
  io/detail: file file_kind json_scanner
  kernels: device_kernel
  nn/layers: layer_support linear
  nn/module: call cloning convert hooks module module_slots print sequential
  ops/linalg: float8 linear matmul product
  ops/loss: regression
  ops/pointwise: binary compare inplace relu scalar unary
  ops/reduce: common reduction
  ops/shape: cast methods view
  optim: optimizer optimizer_state recorded_updates sgd
  optim/detail: packed_state saved_state)

# mezzo_split_sample_sources(SOURCES IN_SAMPLE): moves what the lists name from one variable to the other.
function(mezzo_split_sample_sources sources in_sample)
  set(rest ${${sources}})
  set(chosen "")
  set(named "")
  foreach(word IN LISTS mezzo_sample_files)
    if(word MATCHES "^(.*):$")
      set(folder "${CMAKE_MATCH_1}")
    else()
      list(APPEND named "${folder}/${word}")
    endif()
  endforeach()
  foreach(source IN LISTS rest)
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${source}")
    string(REGEX REPLACE "\\.[a-z]+$" "" path "${path}")
    set(in_folder OFF)
    foreach(folder IN LISTS mezzo_sample_folders)
      if(path MATCHES "^${folder}/")
        set(in_folder ON)
      endif()
    endforeach()
    if(in_folder OR path IN_LIST named)
      list(APPEND chosen "${source}")
      list(REMOVE_ITEM named "${path}")
    endif()
  endforeach()
  if(named)
    message(FATAL_ERROR "mezzo: cmake/SampleSources.cmake names ${named}, which is not a source of the library")
  endif()
  list(REMOVE_ITEM rest ${chosen})
  set(${sources} "${rest}" PARENT_SCOPE)
  set(${in_sample} "${chosen}" PARENT_SCOPE)
endfunction()
