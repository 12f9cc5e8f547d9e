# Flags of mezzo's own targets (the interface target mezzo_flags) and, under MEZZO_SANITIZE, of everything.
set(MEZZO_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
if(CMAKE_CONFIGURATION_TYPES)
  list(JOIN CMAKE_CONFIGURATION_TYPES ", " MEZZO_BUILD_TYPE)
  string(APPEND MEZZO_BUILD_TYPE ": chosen when building, optimised but for Debug")
elseif(MEZZO_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  set(MEZZO_BUILD_TYPE "Release, as CMAKE_BUILD_TYPE names none")
elseif(NOT CMAKE_BUILD_TYPE)
  set(MEZZO_BUILD_TYPE "optimised (-O2, loops -O3), as CMAKE_BUILD_TYPE names none")
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
  string(APPEND MEZZO_BUILD_TYPE ", not optimised: tens of times slower")
elseif(NOT CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  string(APPEND MEZZO_BUILD_TYPE ", optimised (-O2, loops -O3)")
endif()
if(MEZZO_TOP_LEVEL)
  # -O3 is given where it pays (kernels and ops, see Library.cmake); elsewhere it only costs compile time.
  if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(MEZZO_CCACHE ccache)
  mark_as_advanced(MEZZO_CCACHE)
  if(MEZZO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER sh "${PROJECT_SOURCE_DIR}/cmake/ccache.sh" "${MEZZO_CCACHE}")
    set(CMAKE_CUDA_COMPILER_LAUNCHER env CCACHE_DEPEND=1 "${MEZZO_CCACHE}")
  endif()
endif()

# clang 14 crashes on templates that a precompiled header holds: for it there are the standard headers alone in it, so that
# its builds show that sources include what they use of ours. Then it warns of private fields that are used.
set(MEZZO_PRECOMPILED "${PROJECT_SOURCE_DIR}/cmake/precompiled")
set(MEZZO_LIBRARY_HEADER "${MEZZO_PRECOMPILED}/library.h")
set(MEZZO_TESTS_HEADER "${MEZZO_PRECOMPILED}/tests.h")
set(MEZZO_CLANG_OPTIONS "")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(MEZZO_LIBRARY_HEADER "${MEZZO_PRECOMPILED}/standard.h")
  set(MEZZO_TESTS_HEADER "${MEZZO_PRECOMPILED}/standard.h")
  set(MEZZO_CLANG_OPTIONS -Wno-unused-private-field)
endif()

add_library(mezzo_flags INTERFACE)
# The bits of a result must not depend on whether the compiler fuses a multiply and an add, on any device. Where fusing is
# meant, the code says so (add_product in kernels/math/float_parts.h).
mezzo_host_options(mezzo_flags INTERFACE -ffp-contract=off)
if(MEZZO_HAVE_CUDA AND NOT MEZZO_CUDA_EMULATED)
  target_compile_options(mezzo_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>")
endif()
if(MEZZO_TOP_LEVEL)
  # -Wpedantic is not for nvcc, whose own output fails it.
  mezzo_host_options(mezzo_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    ${MEZZO_CLANG_OPTIONS})
  target_compile_options(mezzo_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wpedantic>")
  # g++ collects garbage each time its heap has doubled, from 128 MB on, which takes up to a tenth of its time. Here it
  # begins at 400 MB.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    mezzo_host_options(mezzo_flags INTERFACE --param=ggc-min-heapsize=400000)
  endif()
else()
  # What another project asks for is meant for its own code: with a -Werror there, one style warning here would stop its
  # build (at the link too, where -flto compiles), with -ffast-math no step with a NaN would be skipped, and nothing here
  # compiles with -fno-rtti.
  mezzo_host_options(mezzo_flags INTERFACE -w -fno-fast-math -fno-lto -frtti -fexceptions)
  foreach(tool IN ITEMS CLANG_TIDY CPPCHECK CPPLINT INCLUDE_WHAT_YOU_USE)
    set(CMAKE_CXX_${tool} "")
  endforeach()
  foreach(config IN ITEMS "" _DEBUG _RELEASE _RELWITHDEBINFO _MINSIZEREL)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION${config} OFF)
  endforeach()
endif()
if(MEZZO_WERROR)
  target_compile_options(mezzo_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
# Two false alarms of g++ 12: -Wrestrict inside std::string concatenation where nothing overlaps (GCC PR 105651), and
# -Wmaybe-uninitialized in the move constructor of a std::variant of class types (GCC PR 105562 and kin).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
    AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  mezzo_host_options(mezzo_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
# A false alarm of clang 17 and newer: std::stable_sort of libstdc++ 12 and older calls a function of libstdc++ that is
# deprecated for others.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17)
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("#include <string>
    #if _GLIBCXX_RELEASE > 12
    #error newer
    #endif
    int main() {}" MEZZO_STABLE_SORT_IS_DEPRECATED)
  if(MEZZO_STABLE_SORT_IS_DEPRECATED)
    mezzo_host_options(mezzo_flags INTERFACE -Wno-deprecated-declarations)
  endif()
endif()
# On ARM g++ remarks that it passes some types otherwise than it did before version 10.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  mezzo_host_options(mezzo_flags INTERFACE -Wno-psabi)
endif()
# nvcc puts parentheses around names when it writes the host half down.
target_compile_options(mezzo_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-parentheses>")

# For programs that only call the library, which is what the address sanitizer is to check.
set(MEZZO_NOT_INSTRUMENTED "")
if(MEZZO_SANITIZE)
  add_compile_options(-fsanitize=${MEZZO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # What these look for the address sanitizer finds when the memory is touched; they take half of the compiler's time.
  if(MEZZO_SANITIZE MATCHES "address")
    add_compile_options(-fno-sanitize=null,object-size,pointer-overflow)
    set(MEZZO_NOT_INSTRUMENTED -fno-sanitize=all)
    # g++ says so by itself; without, freed memory stays in the library's caches and nobody sees its use.
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_compile_definitions(__SANITIZE_ADDRESS__=1)
      # Loops that are instrumented are not vectorized, which it would warn of.
      mezzo_host_options(mezzo_flags INTERFACE -Wno-pass-failed)
    endif()
  endif()
  # g++ 12 makes functions that are called rarely small, and those never give back the frames on which
  # detect_stack_use_after_return=1 puts their variables: the search for a free one grows with every call. Where it
  # guesses no probabilities it makes none small.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-guess-branch-probability)
  endif()
  add_link_options(-fsanitize=${MEZZO_SANITIZE})
  # The presets keep oneDNN from AMX (DNNL_MAX_CPU_ISA): 2.6 reads one element past a table when it writes code for
  # convolutions on it, which ends a process where that is the end of the address sanitizer's memory.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
