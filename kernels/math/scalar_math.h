// The scalar math of the pointwise ops: one functor per function, written once for CPU loops and CUDA kernels
// on the compute types float, double and int64_t. Transcendental functions come from math.h; what is here are
// formulas over them and the conventions (NaN, ties, integer wrap-around) the ops promise.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/core/scalar.h"
#include "mezzo/kernels/math/math.h"

/// A functor of one expression on numbers of a type T: `MEZZO_FUNCTOR(LtFn, bool, (T a, T b), a < b);`.
#define MEZZO_FUNCTOR(Name, Result, arguments, ...)                  \
  struct Name {                                                      \
    template <class T>                                               \
    MEZZO_HD MEZZO_ALWAYS_INLINE Result operator() arguments const { \
      return __VA_ARGS__;                                            \
    }                                                                \
  }

namespace mezzo::kernels::scalar {

/// A number given by the caller, in the form that device code can read (Scalar's functions are host code).
struct Number {
  double real = 0;
  std::int64_t integer = 0;
  Number() = default;
  Number(const Scalar& value) : real(value.real()), integer(value.integer()) {}
  template <class T>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T as() const {
    if constexpr (std::is_integral_v<T>)
      return integer;
    else
      return static_cast<T>(real);
  }
};

/// f(x, number) and f(number, x) as functions of x.
template <class F>
struct WithRight {
  Number number;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE auto operator()(T x) const {
    return F{}(x, number.as<T>());
  }
};

template <class F>
struct WithLeft {
  Number number;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE auto operator()(T x) const {
    return F{}(number.as<T>(), x);
  }
};

// --- arithmetic. Integers go through unsigned, where overflow wraps instead of being undefined.

template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

MEZZO_FUNCTOR(IdentityFn, T, (T x), x);

struct AddFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

MEZZO_FUNCTOR(SubFn, T, (T a, T b),
              static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b)));

struct MulFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

/// a + alpha * b.
struct AddScaledFn {
  Number alpha;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return AddFn{}(a, MulFn{}(alpha.as<T>(), b));
  }
};

MEZZO_FUNCTOR(DivFn, T, (T a, T b), a / b);

/// Integer quotient towards zero; by 0 it is 0, by -1 it wraps (both trap in the processor otherwise).
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return SubFn{}(std::int64_t{0}, a);
  return a / b;
}

struct DivTruncFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return quotient(a, b);
    else
      return std::trunc(a / b);
  }
};

/// floor(a / b) without the rounding of a / b: from the exact remainder, as Python and PyTorch do.
struct DivFloorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      const T q = quotient(a, b);
      const bool rounds_up = b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0);
      return rounds_up ? q - 1 : q;
    } else {
      if (b == T(0)) return a / b;
      const T remainder = std::fmod(a, b);
      T q = (a - remainder) / b;
      if (remainder != T(0) && (b < T(0)) != (remainder < T(0))) q -= T(1);
      if (q == T(0)) return std::copysign(T(0), a / b);
      const T below = std::floor(q);
      return q - below > T(0.5) ? below + T(1) : below;
    }
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
/// a - b trunc(a / b), with the sign of a; otherwise the same.
struct FmodFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return SubFn{}(a, MulFn{}(b, DivTruncFn{}(a, b)));
    else
      return std::fmod(a, b);
  }
};

/// x^n for integers; a negative n gives the truncated value of 1 / x^-n.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t integer_power(std::int64_t x, std::int64_t n) {
  if (n < 0) return x == 1 ? 1 : (x == -1 ? ((n & 1) != 0 ? -1 : 1) : 0);
  std::int64_t result = 1;
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = MulFn{}(result, x);
    x = MulFn{}(x, x);
  }
  return result;
}

struct PowFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return integer_power(x, y);
    else
      return math::pow(x, y);
  }
};

// --- the larger and smaller of two, and what follows from them. Each keeps a NaN of either operand.

struct MaximumFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    const bool first = (a > b) | (a != a);
    return first ? a : b;
  }
};

struct MinimumFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    const bool first = (a < b) | (a != a);
    return first ? a : b;
  }
};

// --- functions of one number

struct NegFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return SubFn{}(T(0), x);
    else
      return -x;
  }
};

struct AbsFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? NegFn{}(x) : x;
    else
      return std::fabs(x);
  }
};

/// 0 for NaN, as PyTorch has it: an element that is NaN has no direction in the gradient of |x|.
struct SignFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T of_positive = x > T(0) ? T(1) : T(0);
    return x < T(0) ? T(-1) : of_positive;
  }
};

MEZZO_FUNCTOR(SquareFn, T, (T x), MulFn{}(x, x));

MEZZO_FUNCTOR(CubeFn, T, (T x), MulFn{}(MulFn{}(x, x), x));

MEZZO_FUNCTOR(ReciprocalFn, T, (T x), T(1) / x);

MEZZO_FUNCTOR(SqrtFn, T, (T x), math::sqrt(x));

struct RsqrtFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return math::rsqrt(x);
  }
};

}  // namespace mezzo::kernels::scalar
