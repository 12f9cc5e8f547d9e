// The loops of rounded quotients and of remainders. An exact one takes fmod or the division of 64-bit
// integers, which no processor does in vectors; most operands are near enough to each other that a division
// in f64 gives the same bits. Blocks with other operands, a divisor of 0 or inf are computed one by one. A
// source that passes such a functor to pointwise() includes this header.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/kernels/pointwise/cpu.h"

namespace mezzo::kernels::cpu::detail {

/// Two floats whose quotient is below 2^27. It is rounded to double by less than its distance from the next
/// integer, of which it may be 2^-24, unless it is one; so its integer part n is right. n b has at most 51
/// bits, and a - n b as many as a float.
struct NearFloats {
  MEZZO_ALWAYS_INLINE static bool fits(float a, float b) {
    const float size = math::detail::magnitude(b);
    const bool near = math::detail::magnitude(a) < size * 0x1p27F,
               finite = size < math::detail::bit_cast<float>(math::detail::kInfinityBits);
    return near & finite;  // not &&: a loop over an array is to stay one without branches
  }
  /// std::fmod(a, b) but for the sign of a zero.
  MEZZO_ALWAYS_INLINE static float rest(float a, float b) {
    const double dividend = a, divisor = b;
    return static_cast<float>(dividend -
                              static_cast<double>(static_cast<std::int32_t>(dividend / divisor)) * divisor);
  }
  /// The sign of a zero is that of a.
  MEZZO_ALWAYS_INLINE static float near(scalar::FmodFn /*f*/, float a, float b) {
    using namespace math::detail;
    const float remainder = rest(a, b);
    return select(remainder == 0.0F, with_sign(0.0F, a), remainder);
  }
  MEZZO_ALWAYS_INLINE static float near(scalar::RemainderFn /*f*/, float a, float b) {
    using namespace math::detail;
    const float remainder = near(scalar::FmodFn{}, a, b);
    return select((remainder != 0.0F) & ((b < 0.0F) != (remainder < 0.0F)), remainder + b, remainder);
  }
  MEZZO_ALWAYS_INLINE static float near(scalar::DivFloorFn /*f*/, float a, float b) {
    using namespace math::detail;
    const float remainder = rest(a, b);
    const bool rounds_down = (remainder != 0.0F) & ((b < 0.0F) != (remainder < 0.0F));
    const float q = (a - remainder) / b - select(rounds_down, 1.0F, 0.0F);
    const auto whole = static_cast<float>(static_cast<std::int32_t>(q));
    const float below = whole - select(whole > q, 1.0F, 0.0F);
    const float rounded = select(q - below > 0.5F, below + 1.0F, below);
    return select(q == 0.0F, bit_cast<float>(sign_bits(a) ^ sign_bits(b)), rounded);
  }
};

/// Two integers of 32 bits.
struct NearIntegers {
  MEZZO_ALWAYS_INLINE static bool fits(std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 31;
    return (a < kLimit) & (a > -kLimit) & (b < kLimit) & (b > -kLimit) & (b != 0);
  }
  MEZZO_ALWAYS_INLINE static std::int32_t near(scalar::DivTruncFn /*f*/, std::int64_t a, std::int64_t b) {
    return static_cast<std::int32_t>(static_cast<double>(static_cast<std::int32_t>(a)) /
                                     static_cast<double>(static_cast<std::int32_t>(b)));
  }
  MEZZO_ALWAYS_INLINE static std::int64_t near(scalar::DivFloorFn /*f*/, std::int64_t a, std::int64_t b) {
    const std::int32_t q = near(scalar::DivTruncFn{}, a, b), divisor = static_cast<std::int32_t>(b);
    const std::int32_t rest = static_cast<std::int32_t>(a) - q * divisor;
    const bool rounds_down = (rest != 0) & ((rest ^ divisor) < 0);
    return q - static_cast<std::int32_t>(rounds_down);
  }
  MEZZO_ALWAYS_INLINE static std::int64_t near(scalar::FmodFn /*f*/, std::int64_t a, std::int64_t b) {
    return static_cast<std::int32_t>(a) - near(scalar::DivTruncFn{}, a, b) * static_cast<std::int32_t>(b);
  }
  MEZZO_ALWAYS_INLINE static std::int64_t near(scalar::RemainderFn /*f*/, std::int64_t a, std::int64_t b) {
    const std::int64_t rest = near(scalar::FmodFn{}, a, b);
    const bool has_other_sign = (rest != 0) & ((rest ^ b) < 0);
    return rest + (has_other_sign ? b : 0);
  }
};

/// The operands of a compute type that fit(), and near(f, a, b): the bits of f(a, b) for them. Nothing of
/// f64, and truncated quotients of integers only: of floats there is a vector instruction.
template <class T>
struct NearNumbers {};
template <>
struct NearNumbers<float> : NearFloats {};
template <>
struct NearNumbers<std::int64_t> : NearIntegers {};

/// Elements that are near together, or all computed one by one.
inline constexpr std::int64_t kQuotientBlock = 64;

template <class F, class T>
struct QuotientTile {
  static void run(F /*f*/, T* out, std::array<const T*, 2> in, std::int64_t n) {
    for (std::int64_t at = 0; at < n; at += kQuotientBlock)
      block(out + at, in[0] + at, in[1] + at, n - at < kQuotientBlock ? n - at : kQuotientBlock);
  }
  /// By a number.
  static void run(scalar::WithRight<F> f, T* out, std::array<const T*, 1> in, std::int64_t n) {
    T divisors[kQuotientBlock];
    for (T& divisor : divisors) divisor = f.number.template as<T>();
    for (std::int64_t at = 0; at < n; at += kQuotientBlock)
      block(out + at, in[0] + at, divisors, n - at < kQuotientBlock ? n - at : kQuotientBlock);
  }

 private:
  MEZZO_ALWAYS_INLINE static void block(T* out, const T* a, const T* b, std::int64_t n) {
    std::int32_t far = 0;
    for (std::int64_t i = 0; i < n; ++i) far |= static_cast<std::int32_t>(!NearNumbers<T>::fits(a[i], b[i]));
    if (far != 0) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = F{}(a[i], b[i]);
      return;
    }
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) out[i] = NearNumbers<T>::near(F{}, a[i], b[i]);
  }
};

template <class F, class T>
concept NearFunction = requires(T x) {
  NearNumbers<T>::near(F{}, x, x);
};
template <class T, NearFunction<T> F>
struct PointwiseTile<F, T, T, 2> : QuotientTile<F, T> {};
template <class T, NearFunction<T> F>
struct PointwiseTile<scalar::WithRight<F>, T, T, 1> : QuotientTile<F, T> {};

}  // namespace mezzo::kernels::cpu::detail
