// One step of a linear recurrence, for the scans of all devices.
#pragma once

#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

/// h -> scale h + add. What the template leaves out is not computed, so that 0 and 1 that nobody gave cannot
/// meet an infinity.
template <class W, bool kScale, bool kAdd>
struct AffineMap {
  W scale = 1, add = 0;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE W operator()(W h) const {
    if constexpr (kScale) h = MulFn{}(scale, h);
    if constexpr (kAdd) h = AddFn{}(h, add);
    return h;
  }
  /// This map after another.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE AffineMap after(const AffineMap& first) const {
    AffineMap result;
    if constexpr (kScale) result.scale = MulFn{}(scale, first.scale);
    if constexpr (kAdd) result.add = (*this)(first.add);
    return result;
  }
};

}  // namespace mezzo::kernels::scalar
