# Looks at nvcc before CMake does, whose errors are pages: sets MEZZO_NVCC (empty when CUDA cannot be built, and
# MEZZO_CUDA_WHY_NOT then says why in one line), MEZZO_NVCC_VERSION, CMAKE_CUDA_ARCHITECTURES and, where nvcc does not take
# the system's C++ compiler, CMAKE_CUDA_HOST_COMPILER.
set(MEZZO_NVCC_VERSION "")
set(mezzo_nvcc_names ${CMAKE_CUDA_COMPILER})
if(NOT mezzo_nvcc_names)
  set(mezzo_nvcc_names $ENV{CUDACXX})
endif()
if(NOT mezzo_nvcc_names)
  set(mezzo_nvcc_names nvcc)
endif()
find_program(MEZZO_NVCC ${mezzo_nvcc_names} HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda
  PATH_SUFFIXES bin NO_CACHE)

# mezzo_no_cuda(WHY): ends the look.
macro(mezzo_no_cuda why)
  set(MEZZO_NVCC "")
  set(MEZZO_CUDA_WHY_NOT "not built: ${why}")
  return()
endmacro()

if(NOT MEZZO_NVCC)
  mezzo_no_cuda("no CUDA toolkit found, set CUDACXX to its nvcc (looked in PATH and /usr/local/cuda)")
endif()
execute_process(COMMAND "${MEZZO_NVCC}" --version OUTPUT_VARIABLE text ERROR_QUIET)
if(NOT text MATCHES "release ([0-9.]+)")
  mezzo_no_cuda("${MEZZO_NVCC} does not say which release of nvcc it is: set CUDACXX to the toolkit's nvcc")
endif()
set(MEZZO_NVCC_VERSION ${CMAKE_MATCH_1})
if(MEZZO_NVCC_VERSION VERSION_LESS 12)
  mezzo_no_cuda("nvcc ${MEZZO_NVCC_VERSION} does not know C++20, 12 or newer does")
endif()

# Machine code of 80 is that of 86 and 89 too; newer GPUs than 90 take its PTX, which the driver compiles. CUDA's own default
# would be one architecture of ten years ago.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "GPU architectures to compile kernels for")
elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(MEZZO_BUNDLE)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architecture to compile kernels for: one, for the size")
  else()
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90 CACHE STRING "GPU architectures to compile kernels for")
  endif()
endif()
execute_process(COMMAND "${MEZZO_NVCC}" --list-gpu-arch OUTPUT_VARIABLE text ERROR_QUIET)
string(REGEX MATCHALL "[0-9]+" mezzo_known_architectures "${text}")
list(FILTER mezzo_known_architectures INCLUDE REGEX "^([7-9][0-9]|[0-9][0-9][0-9])$")
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^([0-9]+)[a-z]?(-real|-virtual)?$" matched "${architecture}")
  if(mezzo_known_architectures AND NOT architecture STREQUAL "native" AND NOT
      (matched AND CMAKE_MATCH_1 IN_LIST mezzo_known_architectures))
    list(JOIN mezzo_known_architectures ", " known)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: expected some of ${known}, which mezzo and nvcc ${MEZZO_NVCC_VERSION} "
      "know, got ${architecture}; name the compute capability of your GPU (nvidia-smi --query-gpu=compute_cap --format=csv)")
  endif()
endforeach()

# mezzo_try_nvcc(HOST): whether nvcc makes a program with this host compiler, its own choice when empty; MEZZO_NVCC_SAID
# is what it says.
function(mezzo_try_nvcc host)
  set(probe "${PROJECT_BINARY_DIR}/CMakeFiles/mezzo_nvcc.cu")
  file(WRITE "${probe}" "#include <algorithm>\n#include <functional>\n#include <memory>\n#include <string>\n"
    "__global__ void kernel() {}\nint main() { kernel<<<1, 1>>>(); }\n")
  set(choice "")
  if(host)
    set(choice -ccbin "${host}")
  endif()
  execute_process(COMMAND "${MEZZO_NVCC}" ${choice} -std=c++20 "${probe}" -o "${probe}.out"
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(MEZZO_NVCC_SAID "${said}" PARENT_SCOPE)
  set(MEZZO_NVCC_WORKS OFF PARENT_SCOPE)
  if(status EQUAL 0)
    set(MEZZO_NVCC_WORKS ON PARENT_SCOPE)
  endif()
endfunction()

if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT "$ENV{CUDAHOSTCXX}" STREQUAL "")
  set(CMAKE_CUDA_HOST_COMPILER "$ENV{CUDAHOSTCXX}")
elseif(NOT CMAKE_CUDA_HOST_COMPILER AND CMAKE_CROSSCOMPILING)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
# Once for a build folder: it takes a second or two.
set(mezzo_nvcc_tried "${MEZZO_NVCC} ${MEZZO_NVCC_VERSION} ${CMAKE_CUDA_HOST_COMPILER}")
if(mezzo_nvcc_tried STREQUAL "$CACHE{MEZZO_NVCC_TRIED}")
  return()
endif()
mezzo_try_nvcc("${CMAKE_CUDA_HOST_COMPILER}")
if(NOT MEZZO_NVCC_WORKS AND MEZZO_NVCC_SAID MATCHES "fatal error: ([^ \n]+): No such file")
  mezzo_no_cuda("${MEZZO_NVCC} is there, its header ${CMAKE_MATCH_1} is not: install the toolkit's headers too (Debian: \
nvidia-cuda-dev, PyPI: nvidia-cuda-runtime)")
elseif(NOT MEZZO_NVCC_WORKS AND MEZZO_NVCC_SAID MATCHES "cannot find (-l[a-z_]+)")
  mezzo_no_cuda("${MEZZO_NVCC} is there, its library ${CMAKE_MATCH_1} is not: install the toolkit's libraries too (Debian: \
nvidia-cuda-dev, PyPI: nvidia-cuda-runtime)")
elseif(NOT MEZZO_NVCC_WORKS AND NOT CMAKE_CUDA_HOST_COMPILER)
  foreach(version RANGE 11 20)  # the newest that it takes
    math(EXPR version "31 - ${version}")
    find_program(compiler g++-${version} NO_CACHE)
    if(compiler)
      mezzo_try_nvcc("${compiler}")
    endif()
    if(compiler AND MEZZO_NVCC_WORKS)
      message(STATUS "nvcc ${MEZZO_NVCC_VERSION} does not take the system's C++ compiler; its host compiler is ${compiler}")
      set(CMAKE_CUDA_HOST_COMPILER "${compiler}" CACHE FILEPATH "C++ compiler that nvcc calls")
      break()
    endif()
    unset(compiler)
  endforeach()
endif()
if(NOT MEZZO_NVCC_WORKS)
  string(REGEX MATCH "(error|fatal)[^\n!;]*" why "${MEZZO_NVCC_SAID}")
  mezzo_no_cuda("nvcc ${MEZZO_NVCC_VERSION} does not work with the C++ compilers here (${why}): install one that it takes \
and set CUDAHOSTCXX to it (Debian: nvidia-cuda-toolkit-gcc)")
endif()
set(MEZZO_NVCC_TRIED "${MEZZO_NVCC} ${MEZZO_NVCC_VERSION} ${CMAKE_CUDA_HOST_COMPILER}" CACHE INTERNAL "")
