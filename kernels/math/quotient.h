// Integer division for indices, on either device: a header of its own because 64-bit division costs so much.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// a / b for numbers that are not negative, in 32 bits where they fit: a GPU takes a hundred instructions for
/// a 64-bit division.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

/// Division of numbers from 0 to 2^31 - 1 by one that the host knows: a product and a shift instead of the
/// twenty instructions of a GPU's 32-bit division. Source: Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication" (1994), figure 4.1.
class FastDivisor {
 public:
  FastDivisor() = default;
  /// `by`: from 1 to 2^31 - 1.
  explicit FastDivisor(std::int64_t by) {
    while ((std::int64_t{1} << shift_) < by) ++shift_;
    const auto divisor = static_cast<std::uint64_t>(by);
    const std::uint64_t above = (std::uint64_t{1} << shift_) - divisor;
    factor_ = static_cast<std::uint32_t>((above << 32) / divisor + 1);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int32_t operator()(std::int32_t n) const {
    const auto number = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>(std::uint64_t{number} * factor_ >> 32);
    return static_cast<std::int32_t>((high + number) >> shift_);  // both are below 2^31
  }

 private:
  std::uint32_t factor_ = 1, shift_ = 0;
};
/// Plain division of 64-bit numbers, with the interface of FastDivisor.
class PlainDivisor {
 public:
  PlainDivisor() = default;
  explicit PlainDivisor(std::int64_t by) : by_(by) {}
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t operator()(std::int64_t n) const { return n / by_; }

 private:
  std::int64_t by_ = 1;
};
/// For indices of a type: std::int32_t or std::int64_t.
template <class Index>
using DivisorOf = std::conditional_t<std::is_same_v<Index, std::int32_t>, FastDivisor, PlainDivisor>;

}  // namespace mezzo::kernels
