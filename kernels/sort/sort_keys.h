// The order that sorts, as unsigned numbers: what sorts on any device compares words and never values, and
// equal elements keep their order because an entry carries its position. So no two entries are equal, and any
// algorithm gives the same result.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mezzo/core/dtype.h"
#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// A number per value: smaller ones sort first. NaN counts as the largest, -0 and +0 are equal. Key has 64
/// bits, or 32 where the values have no more: float, and integers from int32's range.
template <class Key, class T>
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE Key sort_key(T value, bool descending) {
  Key key;
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    static_assert(sizeof(Key) >= sizeof(T));
    const Bits bits = value == 0 ? Bits{0} : mezzo::detail::bit_cast<Bits>(value);
    key = value != value ? static_cast<Bits>(~Bits{0}) : (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else {
    constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
    key = static_cast<Key>(value) ^ kSign;
  }
  return descending ? static_cast<Key>(~key) : key;
}

/// Key and position in one word.
class ShortEntry {
 public:
  using Key = std::uint32_t;
  static constexpr std::int64_t kMostPositions = 0xffffffff;  ///< the last of them would be like last()
  ShortEntry() = default;
  MEZZO_HD ShortEntry(Key key, std::int64_t at)
      : word_(static_cast<std::uint64_t>(key) << 32U | static_cast<std::uint64_t>(at)) {}
  /// Comes behind every entry of an element.
  [[nodiscard]] MEZZO_HD static ShortEntry last() { return {~Key{0}, 0xffffffff}; }
  [[nodiscard]] MEZZO_HD Key key() const { return static_cast<Key>(word_ >> 32U); }
  [[nodiscard]] MEZZO_HD std::int64_t at() const { return static_cast<std::int64_t>(word_ & 0xffffffffU); }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE bool before(const ShortEntry& other) const {
    return word_ < other.word_;
  }

 private:
  std::uint64_t word_;
};

/// For keys of 64 bits, or more positions than a ShortEntry counts.
class LongEntry {
 public:
  using Key = std::uint64_t;
  LongEntry() = default;
  MEZZO_HD LongEntry(Key key, std::int64_t at) : key_(key), at_(static_cast<std::uint64_t>(at)) {}
  [[nodiscard]] MEZZO_HD static LongEntry last() { return {~Key{0}, -1}; }
  [[nodiscard]] MEZZO_HD Key key() const { return key_; }
  [[nodiscard]] MEZZO_HD std::int64_t at() const { return static_cast<std::int64_t>(at_); }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE bool before(const LongEntry& other) const {
    return key_ != other.key_ ? key_ < other.key_ : at_ < other.at_;
  }

 private:
  std::uint64_t key_, at_;
};

/// Calls f(TypeTag<T>{}, TypeTag<Entry>{}): the compute type of `dtype`, and the smallest entry for `n` of
/// its elements.
template <class F>
void with_entries(DType dtype, std::int64_t n, const F& f) {
  dispatch_compute(dtype, [&]<class T>(TypeTag<T> type) {
    if constexpr (!std::is_same_v<T, double>) {
      if (size_of(dtype) <= 4 && n < ShortEntry::kMostPositions) return f(type, TypeTag<ShortEntry>{});
    }
    f(type, TypeTag<LongEntry>{});
  });
}

}  // namespace mezzo::kernels
