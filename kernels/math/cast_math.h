// The conversion of one element between dtypes, once for the CPU's loops and the loads and stores of CUDA
// kernels. The rules are kernels::cpu::convert's (kernels/cpu/convert.h).
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "mezzo/core/dtype.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// A stored boolean. Not `bool`: reading a byte other than 0 and 1 as bool is undefined.
struct BoolByte {
  std::uint8_t byte;
};

/// The type that a dtype's elements have in memory, from the type that stands for the dtype.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, BoolByte, T>;

namespace detail {

template <class T>
inline constexpr bool kIs16Bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// The f64 that rounds to any format of 11 bits or fewer as `x` itself does: beyond 53 bits, what is shifted
/// out is kept as one sticky bit, far below the last place of the result.
MEZZO_HD MEZZO_ALWAYS_INLINE double sticky_double(std::int64_t x) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  const std::int64_t shifted = (x >> 11) | static_cast<std::int64_t>((x & 2047) != 0);
  const bool exact = x >= -kExact && x <= kExact;
  const double d = static_cast<double>(exact ? x : shifted);
  return exact ? d : d * 2048.0;
}

/// Truncation that is defined everywhere: NaN gives 0, out of range the nearest integer.
template <class To, class From>
MEZZO_HD MEZZO_ALWAYS_INLINE To truncate(From x) {
  constexpr To kLargest = std::numeric_limits<To>::max();
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  // max + 1 is a power of two, hence exact in From where max itself may not be.
  constexpr From kEnd = static_cast<From>(kLargest / 2 + 1) * 2;
  From inside = x == x ? x : From{0};
  inside = inside < kLow ? kLow : inside;
  const bool above = inside >= kEnd;
  inside = above ? From{0} : inside;
  const To truncated = static_cast<To>(inside);
  return above ? kLargest : truncated;
}

}  // namespace detail

/// `x` as a To, rounded once; From and To are stored types (BoolByte for boolean).
template <class To, class From>
MEZZO_HD MEZZO_ALWAYS_INLINE To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, BoolByte>) {
    // A minimum, where `!= 0` would become a branch per element in g++: ten times slower.
    const std::uint8_t one = 1;
    return cast<To>(x.byte < one ? x.byte : one);
  } else if constexpr (kIsFloat8<From> && std::is_same_v<To, BFloat16>) {
    return BFloat16::from_bits(mezzo::detail::bfloat16_bits_of<typename From::Layout>(x.bits));
  } else if constexpr (kIsNarrowFloat<From>) {
    return cast<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BoolByte>) {
    return BoolByte{static_cast<std::uint8_t>(x != From{0})};
  } else if constexpr (kIsNarrowFloat<To>) {
    if constexpr (std::is_same_v<From, std::int64_t>)
      return To(detail::sticky_double(x));
    else if constexpr (std::is_same_v<From, std::int32_t>)
      return To(static_cast<double>(x));
    else if constexpr (std::is_integral_v<From>)
      return To(static_cast<float>(x));  // 8 and 16 bits: exact
    else
      return To(x);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return detail::truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace mezzo::kernels
