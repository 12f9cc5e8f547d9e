# The library. Sources are found by pattern on purpose: an op is added by writing in two files and nothing else, so
# no list of files may need an edit. CONFIGURE_DEPENDS makes a build notice new and deleted files by itself.
set(MEZZO_FOLDERS core autograd kernels ops nn amp optim io data dist onnx profile train)
# g++ 12 vectorises a loop with a condition only when it need not care about floating-point exceptions and errno; nobody
# reads them here, and no result changes. The whole library has these flags: sources of all folders share its precompiled
# headers.
set(MEZZO_OBJECT_FLAGS -fno-trapping-math -fno-math-errno)
# clang fills 512-bit registers only when told (g++ is told by the attribute, see kernels/cpu/multiversion.h); code for
# the smaller instruction sets is the same with and without.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND MEZZO_OBJECT_FLAGS -mprefer-vector-width=512)
endif()
# For sources that hold inner loops. Sanitizer builds choose a lower level themselves.
set(MEZZO_LOOP_FLAGS "")
if(NOT MEZZO_SANITIZE)
  set(optimized "$<NOT:$<CONFIG:Debug,MinSizeRel>>")
  set(MEZZO_LOOP_FLAGS "$<$<AND:$<COMPILE_LANGUAGE:CXX>,${optimized}>:-O3>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,${optimized}>:-Xcompiler=-O3>")
elseif(MEZZO_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What the checks of inner loops find ends in an illegal instruction, of which the address sanitizer prints the stack
  # (handle_sigill in CMakePresets.json), and not in a message. The places and types for messages would be two thirds of
  # the data that each process has to relocate, and an eighth of the time to compile. g++ then leaves out one check, of
  # the type of an object that a cast or call names (vptr); these sources cast no object to a derived type.
  set(MEZZO_LOOP_FLAGS -fsanitize-undefined-trap-on-error)
endif()
# Sources that hold kernels for every device end in .cu: nvcc compiles them where CUDA is built, else they are C++.
set(mezzo_sources "")
set(mezzo_kernel_sources "")
set(mezzo_loop_sources "")
foreach(folder IN LISTS MEZZO_FOLDERS)
  file(GLOB_RECURSE sources RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
  file(GLOB_RECURSE kernels RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cu")
  # Compiled once per instruction set, below.
  list(FILTER sources EXCLUDE REGEX "^kernels/gemm/eigen/")
  # A library of its own, which alone includes mpi.h (cmake/Mpi.cmake).
  list(FILTER sources EXCLUDE REGEX "^dist/mpi/module")
  if(NOT MEZZO_HAVE_NCCL)
    list(FILTER sources EXCLUDE REGEX "^dist/nccl/")
  endif()
  if(MEZZO_HAVE_CUDA)
    list(FILTER sources EXCLUDE REGEX "^core/no_cuda/")
  else()
    # Folders named cuda, and kernels/<family>/cuda.cu, cuda_*.cu and cuda_*.cpp.
    list(FILTER sources EXCLUDE REGEX "^(core|kernels)/cuda/|^kernels/[a-z]+/cuda[_.]")
    list(FILTER kernels EXCLUDE REGEX "^kernels/cuda/|^kernels/[a-z]+/cuda[_.]")
  endif()
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/")
  list(TRANSFORM kernels PREPEND "${PROJECT_SOURCE_DIR}/")
  list(APPEND mezzo_sources ${sources} ${kernels})
  list(APPEND mezzo_kernel_sources ${kernels})
  if(folder MATCHES "^kernels")
    list(APPEND mezzo_loop_sources ${sources})
  endif()
endforeach()
list(APPEND mezzo_loop_sources ${mezzo_kernel_sources})
# These losses are as fast when their loops are vectorised and not unrolled, and smaller. smooth_l1 and huber are not, nor
# are reductions.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT MEZZO_SANITIZE)
  set(loss_sources ${mezzo_kernel_sources})
  list(FILTER loss_sources INCLUDE REGEX "/ops/loss/(binary|likelihood|margin|regression)\\.cu$")
  list(REMOVE_ITEM mezzo_loop_sources ${loss_sources})
  set_source_files_properties(${loss_sources} PROPERTIES COMPILE_OPTIONS
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,${optimized}>:-fvect-cost-model=dynamic>;\
$<$<AND:$<COMPILE_LANGUAGE:CUDA>,${optimized}>:-Xcompiler=-O2,-fvect-cost-model=dynamic>")
endif()
if(NOT mezzo_sources)
  message(FATAL_ERROR "mezzo: no source files under ${PROJECT_SOURCE_DIR}")
endif()

# <mezzo/core/tensor.h> and "mezzo/core/tensor.h" mean the same file in the tree and installed.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/include/mezzo" SYMBOLIC)

# Everything is compiled in object libraries and goes into libmezzo whole, so that the static registrars of ops are
# never dropped. Header-only dependencies stop here and are no concern of a consumer.
# The library calls its own functions directly, as nobody replaces them. And thread-local state (free lists, autocast,
# recording) is read several times in every op: by a fixed offset instead of a call. A library that is opened by dlopen
# gets such memory from a small reserve of the system's: what is not a few bytes is a PerThread (core/memory/per_thread.h), and
# with the CUDA runtime, which brings 4 KiB, there are no fixed offsets. Nor in the static library: linkers give a program
# the offsets all the same, and in each of many plugins it would take from the reserve.
list(APPEND MEZZO_OBJECT_FLAGS -fno-semantic-interposition)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND MEZZO_OBJECT_FLAGS -fno-gnu-unique)
endif()
if(BUILD_SHARED_LIBS AND (NOT MEZZO_HAVE_CUDA OR MEZZO_CUDA_EMULATED))
  list(APPEND MEZZO_OBJECT_FLAGS -ftls-model=initial-exec)
endif()
# mezzo_optimise(TARGET): also where the project names no build type, CMake's default, or one of its own. Without, the
# library would be tens of times slower, as only Debug is meant to be. Comes before other levels, which win.
function(mezzo_optimise target)
  if(NOT MEZZO_SANITIZE)
    set(other_type "$<NOT:$<CONFIG:Debug,Release,RelWithDebInfo,MinSizeRel>>")
    target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,${other_type}>:-O2>"
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,${other_type}>:-Xcompiler=-O2>")
    target_compile_definitions(${target} PRIVATE "$<${other_type}:NDEBUG>")
  endif()
endfunction()
function(mezzo_object_library name)
  add_library(${name} OBJECT ${ARGN})
  target_compile_features(${name} PUBLIC cxx_std_20)
  # Said here and not left to CMAKE_... variables, which another project may have set for its own code: hidden symbols
  # would empty the shared library, and a unity build of all sources would merge the anonymous namespaces of the ops.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF UNITY_BUILD OFF
    UNITY_BUILD_MODE GROUP CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN ON)
  mezzo_optimise(${name})
  mezzo_host_options(${name} PRIVATE ${MEZZO_OBJECT_FLAGS})
  target_include_directories(${name} PUBLIC "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(${name} PRIVATE mezzo_flags Eigen3::Eigen Threads::Threads)
  if(MEZZO_HAVE_ONEDNN)
    target_link_libraries(${name} PRIVATE oneDNN::dnnl)
    target_compile_definitions(${name} PRIVATE MEZZO_HAVE_ONEDNN=1)
  endif()
  if(MEZZO_HAVE_CUDA)
    mezzo_use_cuda_headers(${name})
  endif()
endfunction()

# Two parts: what the timing sample is linked with, and the rest. In each, sources without inner loops and those with, which
# have another level of optimisation. Half of the time of most files is reading headers; each level reads them from one
# precompiled header. (One for both would not do: immintrin.h ends with a pragma that takes g++ 12 back to the level
# of the precompiled header.) nvcc's sources do without.
include(SampleSources)
include(JoinedSources)
mezzo_split_sample_sources(mezzo_sources mezzo_sample_sources)
set(mezzo_object_libraries "")
foreach(part IN ITEMS mezzo_sample mezzo)
  set(plain ${${part}_sources})
  set(loops ${${part}_sources})
  list(REMOVE_ITEM plain ${mezzo_loop_sources})
  list(REMOVE_ITEM loops ${plain})
  if(MEZZO_JOIN_SOURCES)
    mezzo_join_kernels(plain ${part}_plain)
    mezzo_join_kernels(loops ${part}_loops)
  endif()
  if(NOT MEZZO_HAVE_CUDA OR MEZZO_CUDA_EMULATED)
    set_source_files_properties(${mezzo_kernel_sources} PROPERTIES LANGUAGE CXX)
  endif()
  mezzo_object_library(${part}_objects ${plain})
  mezzo_object_library(${part}_loops ${loops})
  target_compile_options(${part}_loops PRIVATE ${MEZZO_LOOP_FLAGS})
  list(APPEND mezzo_object_libraries ${part}_objects ${part}_loops)
  if(MEZZO_JOIN_SOURCES)
    mezzo_join_folders(${part}_objects "${plain}" amp autograd core core/cuda core/memory core/text data data/detail
      data/image data/text data/text/detail dist dist/detail dist/mpi dist/nccl io io/detail io/detail/torch nn/layers
      nn/module nn/summary nn/surgery onnx ops/indexing ops/linalg ops/loss ops/reduce ops/shape ops/tensor ops/vision
      optim optim/lbfgs optim/schedules profile profile/advise train train/algorithms train/callbacks train/logging
      train/metrics train/trainer)
  endif()
endforeach()
# They name their parts as average_pool does.
set_source_files_properties("${PROJECT_SOURCE_DIR}/ops/vision/convolution.cpp"
  "${PROJECT_SOURCE_DIR}/ops/vision/max_pool.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set(header "$<$<COMPILE_LANGUAGE:CXX>:${MEZZO_LIBRARY_HEADER}>")
target_precompile_headers(mezzo_sample_objects PRIVATE ${header})
target_precompile_headers(mezzo_objects REUSE_FROM mezzo_sample_objects)
if(MEZZO_LOOP_FLAGS)
  target_precompile_headers(mezzo_sample_loops PRIVATE ${header})
  target_precompile_headers(mezzo_loops REUSE_FROM mezzo_sample_loops)
else()
  target_precompile_headers(mezzo_sample_loops REUSE_FROM mezzo_sample_objects)
  target_precompile_headers(mezzo_loops REUSE_FROM mezzo_sample_objects)
endif()

# What is compiled once per instruction set: the same source, each time with its own name for the namespace Eigen so
# that no inline function of one set is ever used by another. The baseline comes first in the link order, so a
# function that several sets share by name (say, of std) is the baseline's.
file(GLOB mezzo_isa_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/gemm/eigen/*.cpp")
set(MEZZO_ISA_VARIANTS "")
if(mezzo_isa_sources)
  mezzo_object_library(mezzo_isa_base ${mezzo_isa_sources})
  target_compile_definitions(mezzo_isa_base PRIVATE MEZZO_ISA=base)
  set(MEZZO_ISA_VARIANTS base)
  include(CheckCXXCompilerFlag)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    check_cxx_compiler_flag(-march=x86-64-v4 MEZZO_CXX_KNOWS_X86_64_V4)
  endif()
  if(MEZZO_CXX_KNOWS_X86_64_V4)
    foreach(isa IN ITEMS v3 v4)
      mezzo_object_library(mezzo_isa_${isa} ${mezzo_isa_sources})
      target_compile_definitions(mezzo_isa_${isa} PRIVATE MEZZO_ISA=${isa} Eigen=Eigen_${isa})
      target_compile_options(mezzo_isa_${isa} PRIVATE -march=x86-64-${isa})
      list(APPEND MEZZO_ISA_VARIANTS ${isa})
    endforeach()
    target_compile_options(mezzo_isa_v4 PRIVATE -mprefer-vector-width=512)
    foreach(target IN LISTS mezzo_object_libraries ITEMS mezzo_isa_base mezzo_isa_v3 mezzo_isa_v4)
      target_compile_definitions(${target} PRIVATE MEZZO_HAVE_ISA_VARIANTS=1)
    endforeach()
  endif()
  foreach(isa IN LISTS MEZZO_ISA_VARIANTS)
    target_compile_options(mezzo_isa_${isa} PRIVATE ${MEZZO_LOOP_FLAGS})
    if(MEZZO_SANITIZE)
      # Eigen's code and not ours: what it reads and writes is checked, its arithmetic is not. A third of the time to
      # compile and to run.
      target_compile_options(mezzo_isa_${isa} PRIVATE -O1 -fno-sanitize=undefined)
    endif()
    list(APPEND mezzo_object_libraries mezzo_isa_${isa})
  endforeach()
endif()

if(MEZZO_CUDA_EMULATED)
  file(GLOB emulation CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/emulated_cuda/*.cpp")
  mezzo_object_library(mezzo_emulated_cuda ${emulation})
  set_target_properties(mezzo_emulated_cuda PROPERTIES UNITY_BUILD ${MEZZO_JOIN_SOURCES} UNITY_BUILD_MODE BATCH)
  # The device and its stand-ins for NVIDIA's libraries have to be quick, as all that kernels and products do goes through
  # them. The device's own code is not checked, which still tells the address sanitizer what it does (asan.h); the
  # stand-ins are, as they read and write the library's memory.
  set(device_flags "")
  set(stand_in_flags "")
  if(MEZZO_SANITIZE MATCHES "address")
    set(device_flags -O2 -fno-sanitize=all -D__SANITIZE_ADDRESS__=1)
    set(stand_in_flags -O2 -fno-sanitize=undefined)
  endif()
  target_compile_options(mezzo_emulated_cuda PRIVATE ${device_flags})
  list(APPEND mezzo_object_libraries mezzo_emulated_cuda)
  # Stand in for cuBLASLt, cuDNN and NCCL and are opened like them. Not linked to libmezzo, which they find in the process
  # that opens them.
  function(mezzo_emulated_library folder name opener definition)
    file(GLOB emulation CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/emulated_cuda/${folder}/*.cpp")
    mezzo_object_library(mezzo_emulated_${folder} ${emulation})
    target_compile_options(mezzo_emulated_${folder} PRIVATE ${stand_in_flags})
    add_library(mezzo_${name} MODULE $<TARGET_OBJECTS:mezzo_emulated_${folder}>)
    set_target_properties(mezzo_${name} PROPERTIES OUTPUT_NAME ${name}_emulated LINKER_LANGUAGE CXX
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_link_libraries(mezzo_${name} PRIVATE mezzo_flags)
    set_property(SOURCE "${PROJECT_SOURCE_DIR}/${opener}" APPEND PROPERTY COMPILE_DEFINITIONS
      "${definition}=\"${PROJECT_BINARY_DIR}/lib${name}_emulated.so\"")
  endfunction()
  mezzo_emulated_library(blas_lt cublasLt kernels/cuda/vendor/blas_lt.cpp MEZZO_EMULATED_BLAS_LT)
  mezzo_emulated_library(dnn cudnn kernels/cuda/vendor/dnn.cpp MEZZO_EMULATED_DNN)
  if(MEZZO_HAVE_NCCL)
    mezzo_emulated_library(nccl nccl dist/nccl/nccl.cpp MEZZO_EMULATED_NCCL)
  endif()
endif()
if(mezzo_wheel_folders)
  list(JOIN mezzo_wheel_folders "," folders)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/core/cuda/shared_library.cpp" APPEND PROPERTY COMPILE_DEFINITIONS
    "MEZZO_WHEEL_FOLDERS=${folders}")
endif()
if(MEZZO_HAVE_NCCL)
  # These choose it.
  file(GLOB nccl_users CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/dist/init*.cpp")
  set_property(SOURCE ${nccl_users} APPEND PROPERTY COMPILE_DEFINITIONS MEZZO_HAVE_NCCL=1)
  if(MEZZO_NCCL_INCLUDE)
    file(GLOB nccl_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/dist/nccl/*.cpp")
    set_property(SOURCE ${nccl_sources} APPEND PROPERTY INCLUDE_DIRECTORIES "${MEZZO_NCCL_INCLUDE}")
  endif()
endif()

# mezzo_use_codec(NAME TARGET SOURCES...): these sources, and no other, include the library's header.
set(mezzo_codecs "")
function(mezzo_use_codec name target)
  if(MEZZO_HAVE_${name})
    # Not those that the compiler searches anyway: named once more, they come before the standard library's own headers,
    # which then do not find those of C.
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    list(REMOVE_ITEM folders "" folders-NOTFOUND ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    foreach(source IN LISTS ARGN)
      set_property(SOURCE "${PROJECT_SOURCE_DIR}/${source}" APPEND PROPERTY COMPILE_DEFINITIONS MEZZO_HAVE_${name}=1)
      set_property(SOURCE "${PROJECT_SOURCE_DIR}/${source}" APPEND PROPERTY INCLUDE_DIRECTORIES "${folders}")
    endforeach()
    set(mezzo_codecs ${mezzo_codecs} ${target} PARENT_SCOPE)
  endif()
endfunction()
mezzo_use_codec(ZLIB ZLIB::ZLIB io/detail/deflate.cpp)
mezzo_use_codec(PNG PNG::PNG data/image/png.cpp)
mezzo_use_codec(JPEG TurboJPEG::TurboJPEG data/image/jpeg.cpp)

set(mezzo_link_libraries Threads::Threads ${CMAKE_DL_LIBS} ${mezzo_codecs})
if(MEZZO_ONEDNN_OPENED)
  file(GLOB onednn_users "${PROJECT_SOURCE_DIR}/kernels/*/*onednn*.cpp")
  set_property(SOURCE ${onednn_users} APPEND PROPERTY COMPILE_DEFINITIONS ${MEZZO_ONEDNN_OPENED})
elseif(MEZZO_HAVE_ONEDNN)
  list(APPEND mezzo_link_libraries oneDNN::dnnl)
endif()
if(MEZZO_CUDA_EMULATED)
  list(APPEND mezzo_link_libraries ${MEZZO_BOOST_CONTEXT})
elseif(MEZZO_HAVE_CUDA)
  # Static, so that a program starts on a machine without CUDA. libcuda is never linked, cudart opens it by itself.
  list(APPEND mezzo_link_libraries CUDA::cudart_static)
endif()

add_library(mezzo)
add_library(mezzo::mezzo ALIAS mezzo)
list(TRANSFORM mezzo_object_libraries REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE mezzo_all_objects)
if(NOT BUILD_SHARED_LIBS)
  # A linker takes from an archive the objects that are asked for by name, and registrars are not. Of one object it takes
  # all, however a program is linked.
  list(TRANSFORM mezzo_all_objects REPLACE "(.+)" "$<FILTER:\\1,EXCLUDE,[.](gch|pch)$>")  # precompiled headers
  set(whole "${PROJECT_BINARY_DIR}/mezzo_whole$<CONFIG>${CMAKE_CXX_OUTPUT_EXTENSION}")
  add_custom_command(OUTPUT "${whole}" COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -o "${whole}" ${mezzo_all_objects}
    DEPENDS ${mezzo_all_objects} COMMENT "Joining the library's objects" COMMAND_EXPAND_LISTS VERBATIM)
  set(mezzo_all_objects "${whole}")
endif()
target_sources(mezzo PRIVATE ${mezzo_all_objects})
# Installed, it finds libraries outside of the system's folders where it was linked with them.
set_target_properties(mezzo PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(mezzo PUBLIC cxx_std_20)
# In another project they are system headers, so that its warnings are about its own code.
set(system "")
if(NOT MEZZO_TOP_LEVEL)
  set(system SYSTEM)
endif()
target_include_directories(mezzo ${system} PUBLIC "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(mezzo PRIVATE ${mezzo_link_libraries})
target_link_options(mezzo PRIVATE LINKER:-Bsymbolic-functions)
# dlclose() leaves the library where it is, as its threads and those of the program keep objects of it until they end.
target_link_options(mezzo PRIVATE LINKER:-z,nodelete)
# Several copies of the library may be in one process: in plugins that were linked with another version, or with the static
# library. Names carry the version, so that each calls its own; no name is unique in the process as g++ makes those of
# inline variables; and what a shared library takes from the static one stays inside it.
# Whether the linker knows an option is asked of the one that links shared libraries, which may be another than that of
# programs.
include(CheckCXXSourceCompiles)
separate_arguments(shared_linker UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
if(BUILD_SHARED_LIBS)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${shared_linker} LINKER:--default-symver)
  check_cxx_source_compiles("int main() {}" MEZZO_LINKER_VERSIONS_NAMES)
  if(MEZZO_LINKER_VERSIONS_NAMES)
    target_link_options(mezzo PRIVATE LINKER:--default-symver)
  endif()
else()
  target_link_options(mezzo INTERFACE "LINKER:--exclude-libs,${CMAKE_STATIC_LIBRARY_PREFIX}mezzo${CMAKE_STATIC_LIBRARY_SUFFIX}")
endif()
# Relative relocations, of which each op's descriptor has dozens, in a tenth of the space. glibc reads this form from 2.36
# on; the bundle may meet an older one. What the linker writes is run, where it can be: mold 1 leaves out the version that
# glibc asks for, and then no program starts.
if(BUILD_SHARED_LIBS AND NOT MEZZO_BUNDLE)
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${shared_linker} -pie LINKER:-z,pack-relative-relocs)
  set(program "#include <cstdlib>
    #if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 36)
    #error older
    #endif
    int value;
    int* volatile relocated = &value;
    int main() { return *relocated; }")
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    check_cxx_source_compiles("${program}" MEZZO_LINKER_PACKS_RELOCATIONS)
  else()
    include(CheckCXXSourceRuns)
    check_cxx_source_runs("${program}" MEZZO_LINKER_PACKS_RELOCATIONS)
  endif()
  if(MEZZO_LINKER_PACKS_RELOCATIONS)
    target_link_options(mezzo PRIVATE LINKER:-z,pack-relative-relocs)
  endif()
endif()
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(MEZZO_CUDA_EMULATED)
  add_dependencies(mezzo mezzo_cublasLt mezzo_cudnn)
  if(MEZZO_HAVE_NCCL)
    add_dependencies(mezzo mezzo_nccl)
  endif()
endif()

if(NOT BUILD_SHARED_LIBS)
  # The archive comes before the program's objects too: what these construct before main() finds the ops registered.
  set(archive "${CMAKE_INSTALL_LIBDIR}/${CMAKE_STATIC_LIBRARY_PREFIX}mezzo${CMAKE_STATIC_LIBRARY_SUFFIX}")
  target_link_options(mezzo INTERFACE
    "$<BUILD_INTERFACE:LINKER:--whole-archive,$<TARGET_FILE:mezzo>,--no-whole-archive>"
    "$<INSTALL_INTERFACE:LINKER:--whole-archive,$<INSTALL_PREFIX>/${archive},--no-whole-archive>")
endif()

# mezzo_link_sample(PROGRAM): links the program with the part of the library that the timing sample needs, in place of
# libmezzo, so that building it compiles nothing else.
function(mezzo_link_sample program)
  set(parts ${mezzo_object_libraries})
  list(REMOVE_ITEM parts mezzo_objects mezzo_loops)
  foreach(objects IN LISTS parts)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_compile_features(${program} PRIVATE cxx_std_20)
  target_include_directories(${program} PRIVATE "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(${program} PRIVATE ${mezzo_link_libraries})
endfunction()
