// One step of a scan, for all devices: of a linear recurrence, of the logarithm of a running sum, or of a
// running extremum. A map
// takes the value before an element to the one after it, and is made of that element of each operand.
#pragma once

#include <cstddef>
#include <limits>

#include "mezzo/kernels/math/log_one_plus_exp.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

/// h -> scale h + add. An operand that the template leaves out is not computed with, so that its default 1 or
/// 0 cannot meet an infinity.
template <class W, bool kScale, bool kAdd>
struct AffineMap {
  static constexpr std::size_t kOperands = kScale + kAdd;
  /// Rows may be cut: the values of parts, each from kNothing, are joined by Join. With a scale they may not:
  /// the scales of a whole part multiply to an infinity sooner than any result does.
  static constexpr bool kCut = !kScale;
  static constexpr W kNothing = 0;
  using Join = AddFn;
  W scale = 1, add = 0;
  /// `operand(i)`: the element of operand i.
  template <class Operand>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static AffineMap of(const Operand& operand) {
    AffineMap map;
    if constexpr (kScale) map.scale = operand(std::size_t{0});
    if constexpr (kAdd) map.add = operand(std::size_t{kScale});
    return map;
  }
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

/// h -> log(e^h + e^add).
template <class W>
struct LogAddMap {
  static constexpr std::size_t kOperands = 1;
  static constexpr bool kCut = true;
  static constexpr W kNothing = -std::numeric_limits<W>::infinity();
  using Join = LogAddExpFn;
  W add = kNothing;
  template <class Operand>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static LogAddMap of(const Operand& operand) {
    return {operand(std::size_t{0})};
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE W operator()(W h) const { return LogAddExpFn{}(h, add); }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE LogAddMap after(const LogAddMap& first) const {
    return {LogAddExpFn{}(first.add, add)};
  }
};

/// The larger (smaller) of two, of equal ones the second; a NaN wins.
template <bool kLeast>
struct LaterExtremumFn {
  template <class W>
  MEZZO_HD MEZZO_ALWAYS_INLINE W operator()(W a, W b) const {
    return ((kLeast ? b <= a : b >= a) || b != b) ? b : a;
  }
};

/// h -> the extremum of h and x.
template <class W, bool kLeast>
struct ExtremumMap {
  using Limits = std::numeric_limits<W>;
  static constexpr std::size_t kOperands = 1;
  static constexpr bool kCut = true;
  static constexpr W kNothing = Limits::has_infinity ? (kLeast ? Limits::infinity() : -Limits::infinity())
                                                     : (kLeast ? Limits::max() : Limits::lowest());
  using Join = LaterExtremumFn<kLeast>;
  W x = kNothing;
  template <class Operand>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static ExtremumMap of(const Operand& operand) {
    return {operand(std::size_t{0})};
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE W operator()(W h) const { return Join{}(h, x); }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE ExtremumMap after(const ExtremumMap& first) const {
    return {Join{}(first.x, x)};
  }
};

}  // namespace mezzo::kernels::scalar
