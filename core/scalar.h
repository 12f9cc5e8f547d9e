// A number given by the caller beside tensors: keeps whether it was a bool, an integer or a real, because
// type promotion asks only for the kind of such a number and never for its size.
#pragma once

#include <concepts>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo {

/// A bool, integer or real number.
class Scalar {
 public:
  constexpr Scalar() = default;
  constexpr Scalar(bool value)
      : kind_(DTypeKind::boolean), integer_(value ? 1 : 0), real_(value ? 1.0 : 0.0) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Scalar(T value)
      : integer_(static_cast<std::int64_t>(value)), real_(static_cast<double>(value)) {}
  template <std::floating_point T>
  constexpr Scalar(T value) : kind_(DTypeKind::floating), integer_(0), real_(static_cast<double>(value)) {}

  [[nodiscard]] constexpr DTypeKind kind() const { return kind_; }
  [[nodiscard]] constexpr double real() const { return real_; }
  /// The integer value. A real number is truncated; NaN gives 0, out of range the nearest (as casts of
  /// tensors).
  [[nodiscard]] constexpr std::int64_t integer() const {
    if (kind_ != DTypeKind::floating) return integer_;
    if (real_ != real_) return 0;
    if (real_ >= 0x1p63) return INT64_MAX;
    return real_ < -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(real_);
  }
  /// The number in a compute type.
  template <class T>
  [[nodiscard]] constexpr T to() const {
    if constexpr (std::integral<T>)
      return static_cast<T>(integer());
    else
      return static_cast<T>(real_);
  }
  /// dtype of a tensor made from it: bool, i64 or f32.
  [[nodiscard]] constexpr DType dtype() const {
    return kind_ == DTypeKind::boolean   ? DType::boolean
           : kind_ == DTypeKind::integer ? DType::i64
                                         : DType::f32;
  }
  friend constexpr bool operator==(const Scalar& a, const Scalar& b) {
    return a.kind_ == b.kind_ && a.integer_ == b.integer_ && a.real_ == b.real_;
  }

 private:
  DTypeKind kind_ = DTypeKind::integer;
  std::int64_t integer_ = 0;
  double real_ = 0;
};

}  // namespace mezzo
