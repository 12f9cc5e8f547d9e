// Compiler requirements: C++20, and the two function markers that let one source serve g++, clang and nvcc. A
// header of their own, without any include, because every scalar function in core and kernels needs them and
// nothing else.
#pragma once

// A compiler that was not told of C++20 says so once: the include that there is not stops it.
#if __cplusplus < 202002L
#error mezzo needs C++20: give g++ 11 (or newer) or clang 13 (or newer) the option -std=c++20
#define MEZZO_CURE "-std=c++20"
#include MEZZO_CURE
#endif

/// MEZZO_HD: the function exists on the host and on the device. Empty for a plain C++ compiler, the emulated
/// device included.
#if defined(__CUDACC__)
#define MEZZO_HD __host__ __device__
#else
#define MEZZO_HD
#endif

/// MEZZO_ALWAYS_INLINE: inline at every call, at every optimisation level. A loop is vectorised only when its
/// body is inlined. And CPU loops are compiled for several instruction sets: an out-of-line copy of a shared
/// function, built for AVX-512 and kept by the linker for everybody, would crash an older processor.
#if defined(__CUDACC__)
#define MEZZO_ALWAYS_INLINE __forceinline__
#elif defined(__GNUC__) || defined(__clang__)
#define MEZZO_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define MEZZO_ALWAYS_INLINE inline
#endif
