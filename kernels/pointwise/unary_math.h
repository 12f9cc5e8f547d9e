// The functors of the elementary functions, on float and double, and of rounding and of the tests for inf and
// NaN, on integers too. Apart from math/scalar_math.h, which nearly every op includes.
#pragma once

#include "mezzo/kernels/math/elementary_math.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

// --- elementary functions

struct SinNearFn {
  MEZZO_HD MEZZO_ALWAYS_INLINE float operator()(float x) const { return math::sin<math::Argument::near>(x); }
};
struct SinFn {
  using Near = SinNearFn;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::sin(x);
  }
};
struct CosNearFn {
  MEZZO_HD MEZZO_ALWAYS_INLINE float operator()(float x) const { return math::cos<math::Argument::near>(x); }
};
struct CosFn {
  using Near = CosNearFn;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::cos(x);
  }
};
struct TanNearFn {
  MEZZO_HD MEZZO_ALWAYS_INLINE float operator()(float x) const { return math::tan<math::Argument::near>(x); }
};
struct TanFn {
  using Near = TanNearFn;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::tan(x);
  }
};
struct AsinFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::asin(x);
  }
};
struct AcosFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::acos(x);
  }
};
struct AtanFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::atan(x);
  }
};
struct SinhFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::sinh(x);
  }
};
struct CoshFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::cosh(x);
  }
};
struct Expm1Fn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::expm1(x);
  }
};
struct Log1pFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::log1p(x);
  }
};
struct Log2Fn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::log2(x);
  }
};
struct Log10Fn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::log10(x);
  }
};
struct ErfFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::erf(x);
  }
};
struct ErfinvFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::erfinv(x);
  }
};
struct Atan2Fn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T y, T x) const {
    return math::atan2(y, x);
  }
};

// --- rounding; integers are round already

struct CeilFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return std::ceil(x);
  }
};
struct FloorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return std::floor(x);
  }
};
struct TruncFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return std::trunc(x);
  }
};
/// To the nearest integer, ties to even.
struct RoundFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return std::rint(x);
  }
};
/// To the nearest multiple of 1 / power, or of power.
struct RoundDecimalsFn {
  double power;
  bool divides;  ///< multiples of power
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T scale = T(power);
    return divides ? std::rint(x / scale) * scale : std::rint(x * scale) / scale;
  }
};

/// a - b floor(a / b), with the sign of b, from the exact remainder. Of an integer divided by 0 it is a, as
/// the quotient counts as 0.
struct RemainderFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return SubFn{}(a, MulFn{}(b, DivFloorFn{}(a, b)));
    } else {
      const T rest = std::fmod(a, b);
      return rest != T(0) && (b < T(0)) != (rest < T(0)) ? rest + b : rest;
    }
  }
};

// --- inf and NaN

struct IsNanFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE bool operator()(T x) const {
    return x != x;
  }
};
struct IsFiniteFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE bool operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return true;
    else
      return x - x == T(0);
  }
};
struct IsInfFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE bool operator()(T x) const {
    return (x == x) & !IsFiniteFn{}(x);
  }
};
struct NanToNumFn {
  double nan, posinf, neginf;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T infinite = x > T(0) ? T(posinf) : T(neginf);
    const T other = x == x ? infinite : T(nan);
    return x - x == T(0) ? x : other;
  }
};

}  // namespace mezzo::kernels::scalar
