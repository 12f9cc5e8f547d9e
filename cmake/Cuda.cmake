# Whether and how CUDA is built. MEZZO_HAVE_CUDA: there are device kernels. They are compiled by nvcc, or with
# MEZZO_CUDA=EMULATED by the C++ compiler against the emulated device of tests/emulated_cuda (MEZZO_CUDA_EMULATED).
set(MEZZO_HAVE_CUDA OFF)
set(MEZZO_CUDA_EMULATED OFF)
set(MEZZO_CUDA_WHY_NOT "off (MEZZO_CUDA=OFF)")

if(MEZZO_CUDA STREQUAL "EMULATED")
  find_path(MEZZO_BOOST_CONTEXT_INCLUDE boost/context/detail/fcontext.hpp)
  find_library(MEZZO_BOOST_CONTEXT NAMES boost_context)
  mark_as_advanced(MEZZO_BOOST_CONTEXT_INCLUDE MEZZO_BOOST_CONTEXT)
  if(MEZZO_BOOST_CONTEXT AND MEZZO_BOOST_CONTEXT_INCLUDE)
    set(MEZZO_HAVE_CUDA ON)
    set(MEZZO_CUDA_EMULATED ON)
  else()
    list(APPEND mezzo_missing libboost-context-dev)
  endif()
elseif(MEZZO_CUDA STREQUAL "AUTO" OR MEZZO_CUDA STREQUAL "ON")
  # CUDA's own default would be one architecture of ten years ago. 90 with PTX serves every later GPU.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
    set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures to compile kernels for")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(MEZZO_CUDA_WHY_NOT "not built: no CUDA toolkit found, set CUDACXX to its nvcc (looked in PATH and /usr/local/cuda)")
  elseif(NOT TARGET CUDA::cudart_static)
    set(MEZZO_CUDA_WHY_NOT "not built: ${CMAKE_CUDA_COMPILER} is there, its libraries (cudart_static) are not")
  elseif(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
    set(MEZZO_CUDA_WHY_NOT "not built: nvcc ${CMAKE_CUDA_COMPILER_VERSION} does not know C++20, 12 or newer does")
  else()
    set(MEZZO_HAVE_CUDA ON)
  endif()
  if(MEZZO_CUDA STREQUAL "ON" AND NOT MEZZO_HAVE_CUDA)
    message(FATAL_ERROR "MEZZO_CUDA=ON: CUDA is ${MEZZO_CUDA_WHY_NOT}. Install the toolkit, or leave MEZZO_CUDA at AUTO "
      "for the CPU build.")
  endif()
elseif(NOT MEZZO_CUDA STREQUAL "OFF")
  message(FATAL_ERROR "MEZZO_CUDA=${MEZZO_CUDA}: use AUTO, ON, OFF or EMULATED")
endif()

# mezzo_cuda_sources(FILES): these files hold kernels; nvcc compiles them, whatever their name ends with.
function(mezzo_cuda_sources)
  if(MEZZO_HAVE_CUDA AND NOT MEZZO_CUDA_EMULATED)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  endif()
endfunction()

# mezzo_host_options(TARGET SCOPE FLAGS): the same flags for C++ and, through nvcc, for the host half of CUDA sources.
function(mezzo_host_options target scope)
  string(REPLACE ";" "," joined "${ARGN}")
  target_compile_options(${target} ${scope} "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${joined}>")
endfunction()

# mezzo_use_cuda_headers(TARGET): its C++ sources may include <cuda_runtime.h>, the toolkit's or the emulation's; its CUDA
# sources are C++20. Relaxed constexpr: kernels call std::array and std::numeric_limits.
function(mezzo_use_cuda_headers target)
  if(MEZZO_CUDA_EMULATED)
    target_include_directories(${target} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/tests/emulated_cuda/include")
    target_compile_definitions(${target} PRIVATE MEZZO_CUDA_EMULATED=1)
  elseif(MEZZO_HAVE_CUDA)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      # Device code to less than half of its size; it is unpacked when a kernel is first used.
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
    endif()
    set_target_properties(${target} PROPERTIES CUDA_VISIBILITY_PRESET default)
  endif()
endfunction()
