// The parts of the functions in kernels/math/math.h: rounding that is the same everywhere, selection by
// masks, the bits of a float.
#pragma once

#include <cmath>
#include <cstdint>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels::math {

namespace detail {

using mezzo::detail::bit_cast;

inline constexpr std::int32_t kSignBit = INT32_MIN;
inline constexpr std::int32_t kMagnitudeMask = INT32_MAX;
inline constexpr std::int32_t kInfinityBits = 0x7f800000;
inline constexpr std::int32_t kNanBits = 0x7fc00000;

/// a * b + c with both roundings, on every device and whatever the contraction flags of nvcc.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float mul_add(float a, float b, float c) noexcept {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double mul_add(double a, double b, double c) noexcept {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

/// sum + a * b, for the long sums of matrix products and convolutions. On a GPU a fused multiply-add: one
/// instruction and one rounding. nvcc is told to fuse nothing by itself (cmake/Flags.cmake). On the CPU,
/// where an fma may be a slow call, both roundings: devices agree on such sums within a tolerance only.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float add_product(float sum, float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, sum);
#else
  return sum + a * b;
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double add_product(double sum, double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, sum);
#else
  return sum + a * b;
#endif
}

/// How the functions of kernels/math/math.h round. Twice: as mul_add does, with the same bits everywhere.
struct RoundedTwice {
  static constexpr bool kOf16Bit = false;
  template <class T>
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE T mul_add(T a, T b, T c) noexcept {
    return detail::mul_add(a, b, c);
  }
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE float divide(float a, float b) noexcept { return a / b; }
};

/// Fused, for f16 and bf16 arguments whose results are rounded to the same dtype: half the instructions on a
/// GPU, and after that rounding the bits of RoundedTwice, for all 65,536 arguments of both dtypes
/// (tests/cuda/half_packs_test.cpp).
struct Fused {
  static constexpr bool kOf16Bit = true;
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE float mul_add(float a, float b, float c) noexcept {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
  }
  /// For b in [2^-120, 2^120]: without the branch that other divisors take.
  [[nodiscard]] MEZZO_HD static MEZZO_ALWAYS_INLINE float divide(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    const float quotient = __fmul_rn(a, inverse);
    return __fmaf_rn(__fmaf_rn(-quotient, b, a), inverse, quotient);
#else
    return a / b;
#endif
  }
};

/// a * b, rounded by itself: for a product that is returned, as nvcc may fuse it with a sum of the caller's.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float multiply(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double multiply(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class Rounding = RoundedTwice, class T, class... Rest>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T polynomial(T x, T c0, Rest... rest) noexcept {
  if constexpr (sizeof...(Rest) == 0) {
    return c0;
  } else {
    return Rounding::mul_add(polynomial<Rounding>(x, rest...), x, c0);
  }
}

/// condition ? a : b as masks. With ?: g++ moves the work behind an operand into a branch, and without
/// -fno-trapping-math the loop then no longer vectorises.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float select(bool condition, float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return condition ? a : b;
#else
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return bit_cast<float>((bit_cast<std::int32_t>(a) & mask) | (bit_cast<std::int32_t>(b) & ~mask));
#endif
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double select(bool condition, double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  return condition ? a : b;
#else
  const std::int64_t mask = -static_cast<std::int64_t>(condition);
  return bit_cast<double>((bit_cast<std::int64_t>(a) & mask) | (bit_cast<std::int64_t>(b) & ~mask));
#endif
}

/// x between the two bounds; a NaN stays.
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T clamp(T x, T low, T high) noexcept {
  const T at_most = select(x > high, high, x);
  return select(at_most < low, low, at_most);
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int32_t magnitude_bits(float x) noexcept {
  return bit_cast<std::int32_t>(x) & kMagnitudeMask;
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float magnitude(float x) noexcept {
  return bit_cast<float>(magnitude_bits(x));
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int32_t sign_bits(float x) noexcept {
  return bit_cast<std::int32_t>(x) & kSignBit;
}

/// `magnitude_value` (>= 0) with the sign of `sign_source`.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float with_sign(float magnitude_value,
                                                           float sign_source) noexcept {
  return bit_cast<float>(bit_cast<std::int32_t>(magnitude_value) | sign_bits(sign_source));
}

/// 2^n for n in [-126, 127]; other n give some float, as they do when a NaN is on its way through.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float power_of_two(std::int32_t n) noexcept {
  return bit_cast<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(n + 127) << 23));
}

/// x * 2^n for an x and a result that are normal; of NaN some float.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float scaled_by_power(float x, std::int32_t n) noexcept {
  return bit_cast<float>(bit_cast<std::uint32_t>(x) + (static_cast<std::uint32_t>(n) << 23));
}

}  // namespace detail

}  // namespace mezzo::kernels::math
