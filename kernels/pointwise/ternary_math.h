// The functors of three operands: addcmul, addcdiv, lerp, and masked_fill, whose mask comes as a number.
// Apart from math/scalar_math.h, which nearly every op includes.
#pragma once

#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

/// x + value * a * b.
struct AddcmulFn {
  Number value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T a, T b) const {
    return AddFn{}(x, MulFn{}(MulFn{}(value.as<T>(), a), b));
  }
};
/// x + value * (a / b).
struct AddcdivFn {
  double value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T a, T b) const {
    return x + T(value) * (a / b);
  }
};

/// a + weight (b - a), from whichever end is nearer: lerp(a, b, 1) is b.
struct LerpFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b, T weight) const {
    const bool from_a = weight < T(0.5);
    const T start = from_a ? a : b;
    const T share = from_a ? weight : weight - T(1);
    return start + share * (b - a);
  }
};
struct LerpNumberFn {
  double weight;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    return LerpFn{}(a, b, T(weight));
  }
};

/// `value` where the mask is set.
struct MaskedFillFn {
  Number value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T mask) const {
    return mask != T(0) ? value.as<T>() : x;
  }
};

}  // namespace mezzo::kernels::scalar
