// log(1 + e^x) on float and double, which softplus and its kin, and logaddexp, are made of. No term overflows
// where the result does not.
#pragma once

#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

/// log(1 + x) for 0 <= x <= 1, as math::log1p and for less work. A NaN gives some number.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE float log1p_to_one(float x) {
  using namespace math::detail;
  const float u = 1.0F + x;
  SplitForLog split = split_for_log(u);  // k is 0 or 1
  const bool is_direct = split.k == 0.0F;
  // The rounding error of 1 + x, over u; of that, a few bits count: 1/u on [sqrt(2), 2] as a line.
  const float lost = mul_add(u, -0.35355F, 1.2071F) * (x - (u - 1.0F));
  split.f = select(is_direct, x, split.f);
  return log_from_split(split, select(is_direct, 0.0F, lost));
}

[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log1p_to_one(double x) { return math::log1p(x); }

/// log(1 + e^x).
template <class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T log_one_plus_exp(T x) {
  return MaximumFn{}(x, T(0)) + log1p_to_one(math::exp_nonpositive(-AbsFn{}(x)));
}

/// log(e^a + e^b). Infinities may be equal.
struct LogAddExpFn {
  template <class T>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T a, T b) const {
    const T distance = math::detail::select(a == b, T(0), AbsFn{}(a - b));
    return MaximumFn{}(a, b) + log1p_to_one(math::exp_nonpositive(-distance));
  }
};

}  // namespace mezzo::kernels::scalar
