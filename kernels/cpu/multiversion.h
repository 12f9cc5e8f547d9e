// One source, three instruction sets: run_isa compiles a loop body for the baseline, x86-64-v3 (AVX2, FMA,
// F16C) and x86-64-v4 (AVX-512) and calls the variant that isa() names; loops over f64 arrays for the
// baseline only (kBaselineOnly). It stands alone so that every tile loop of the library gets its variants in
// the same way, without separate objects and without compiler flags.
#pragma once

#include <array>
#include <type_traits>

#include "mezzo/kernels/cpu/isa.h"

// Why function attributes: only the three wrappers below carry a target, and everything they call is inlined
// into them. A helper that the compiler does emit out of line (std::max, a functor, the Body itself) is
// emitted with the flags of the translation unit, hence for the baseline. So the linker, which keeps one copy
// of a weak function, can never pick AVX-512 code for the baseline: the trap of compiling whole files with
// -march.
//
// What a Body must keep to:
//  * `static void run(...)` (or with a result) takes pointers, sizes and small functors by value. The loop
//    stands in it, or in functions it calls whose bodies are visible. g++ inlines the whole call tree
//    (flatten), clang only the direct calls: mark functors and helpers MEZZO_ALWAYS_INLINE, else clang may
//    call them as baseline code (same bits, slow).
//  * No std::vector, no throw and no parallel_for in it: threads, memory and errors belong around it.
//  * No intrinsics: those need a function with a target attribute of their own, see convert.cpp.
//  * All variants give the same bits as long as the build has -ffp-contract=off and the loop asks for no
//    reassociated sum. Write a reduction with a fixed number of accumulators (float sum[16]), never with
//    `omp simd reduction`, whose order depends on the vector width.
//  * g++ 12 vectorises loops with conditions (max, selects) only with -O3 -fno-trapping-math and
//    -fno-math-errno; none of them changes a result. clang takes 512-bit vectors only with
//    -mprefer-vector-width=512 (cmake/Library.cmake gives all of these).
//
// Use:
//
//   template <class F>
//   struct UnaryTile {
//     static void run(const float* x, float* y, std::int64_t n, F f) {
//       for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
//     }
//   };
//   run_isa<UnaryTile<Gelu>>(x, y, n, Gelu{});

#if defined(__x86_64__) && defined(__clang__)
#define MEZZO_TARGET_V3 gnu::target("arch=x86-64-v3")
#define MEZZO_TARGET_V4 gnu::target("arch=x86-64-v4"), clang::min_vector_width(512)
#define MEZZO_TARGET_V4_BF16 gnu::target("arch=x86-64-v4,avx512bf16"), clang::min_vector_width(512)
#elif defined(__x86_64__)
#define MEZZO_TARGET_V3 gnu::target("arch=x86-64-v3")
#define MEZZO_TARGET_V4 gnu::target("arch=x86-64-v4,prefer-vector-width=512")
#define MEZZO_TARGET_V4_BF16 gnu::target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")
#elif defined(__aarch64__) && defined(__clang__)
#define MEZZO_TARGET_ARM_BF16 gnu::target("bf16")
#elif defined(__aarch64__)
#define MEZZO_TARGET_ARM_BF16 gnu::target("+bf16")
#endif

// Before a loop over a block of sums, which are registers only if it is written out.
#if defined(__clang__)
#define MEZZO_WRITE_OUT _Pragma("clang loop unroll(full)")
#else
#define MEZZO_WRITE_OUT _Pragma("GCC unroll 8")
#endif

namespace mezzo::kernels::cpu {
namespace detail {

// A body may ask clang to vectorise a loop whose functor turns out to call libm (exp of f64), which no
// vector unit does; clang reports that as a failure, here where the body is inlined.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

template <class Body, class... Args>
[[gnu::flatten, gnu::noinline]] auto run_base(Args... args) {
  return Body::run(args...);
}

#if defined(__x86_64__)
template <class Body, class... Args>
[[MEZZO_TARGET_V3, gnu::flatten, gnu::noinline]] auto run_v3(Args... args) {
  return Body::run(args...);
}

template <class Body, class... Args>
[[MEZZO_TARGET_V4, gnu::flatten, gnu::noinline]] auto run_v4(Args... args) {
  return Body::run(args...);
}
#endif

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// The numbers in an array that a body is given, by pointer or as a block with a pointer `data`; void for
/// other arguments.
template <class A>
struct ElementOf {
  using type = void;
};
template <class T>
struct ElementOf<T*> {
  using type = std::remove_const_t<T>;
};
template <class A, std::size_t N>
struct ElementOf<std::array<A, N>> : ElementOf<A> {};
template <class A>
requires std::is_pointer_v<decltype(A::data)>
struct ElementOf<A> : ElementOf<decltype(A::data)> {
};

template <class T, class... Args>
inline constexpr bool kHasArrayOf = (std::is_same_v<typename ElementOf<Args>::type, T> || ...);

/// One source makes all variants, so one of them shows a sanitizer all there is to see. Functions with
/// intrinsics, which are three sources, are instrumented each.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kOneVariant = true;
#else
inline constexpr bool kOneVariant = false;
#endif

/// Whether a body is compiled for the baseline only: where all its floating arrays are f64. f64 is there for
/// gradient checks and not for training; in three variants its loops were a tenth of the library and of the
/// time it takes to compile.
template <class... Args>
inline constexpr bool kBaselineOnly = kHasArrayOf<double, Args...> && !kHasArrayOf<float, Args...>;

/// A body's exceptions from the rule: it says by `static constexpr bool kRare = true` that it is not worth
/// three variants, by kOfF32 that its f64 arrays are a part of f32 arithmetic.
template <class Body>
concept RareBody = requires {
  requires Body::kRare;
};
template <class Body>
concept BodyOfF32 = requires {
  requires Body::kOfF32;
};

template <class Body, class... Args>
inline constexpr bool kHasVariants =
    !kOneVariant && !RareBody<Body> && (!kBaselineOnly<Args...> || BodyOfF32<Body>);

}  // namespace detail

/// Calls `Body::run(args...)` in the variant compiled for isa(), or in that for the baseline where there is
/// no other (kBaselineOnly). The arguments are passed by value. Costs two calls and an atomic load (2 ns), so
/// call it per tile or per row and not per element.
template <class Body, class... Args>
auto run_isa(Args... args) {
#if defined(__x86_64__)
  if constexpr (detail::kHasVariants<Body, Args...>) {
    switch (isa()) {
      case Isa::v4:
        return detail::run_v4<Body, Args...>(args...);
      case Isa::v3:
        return detail::run_v3<Body, Args...>(args...);
      case Isa::base:
        break;
    }
  }
#endif
  return detail::run_base<Body, Args...>(args...);
}

}  // namespace mezzo::kernels::cpu
