// Sizes, strides and lists of dims: up to eight numbers in place, trivially copyable so that a kernel can
// take them by value on any device.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include "mezzo/core/error.h"

namespace mezzo {

/// Most dimensions a tensor can have.
inline constexpr int kMaxDims = 8;

namespace detail {
/// Throws: ShapeError. (Not in Dims: what throws brings the making and ending of errors into every file.)
[[noreturn]] void refuse_dim();
}  // namespace detail

/// A list of at most kMaxDims integers. Growing beyond throws ShapeError.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) {
    for (const std::int64_t value : values) push_back(value);
  }
  /// From anything that converts to a span of numbers. (A template: with a parameter of type std::span the
  /// compiler would check at each copy of Dims whether they convert to one.)
  template <class R>
  requires(!std::is_base_of_v<Dims, R> && !std::is_same_v<R, std::initializer_list<std::int64_t>> &&
           std::is_convertible_v<const R&, std::span<const std::int64_t>>) constexpr Dims(const R& values) {
    for (const std::int64_t value : std::span<const std::int64_t>(values)) push_back(value);
  }
  constexpr Dims(std::size_t count, std::int64_t value) {
    for (std::size_t i = 0; i < count; ++i) push_back(value);
  }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr std::int64_t* begin() { return values_.data(); }
  [[nodiscard]] constexpr std::int64_t* end() { return values_.data() + size_; }
  [[nodiscard]] constexpr const std::int64_t* begin() const { return values_.data(); }
  [[nodiscard]] constexpr const std::int64_t* end() const { return values_.data() + size_; }
  constexpr std::int64_t& operator[](std::size_t i) { return values_[i]; }
  constexpr const std::int64_t& operator[](std::size_t i) const { return values_[i]; }
  constexpr std::int64_t& back() { return values_[size_ - 1U]; }
  [[nodiscard]] constexpr const std::int64_t& back() const { return values_[size_ - 1U]; }
  constexpr void push_back(std::int64_t value) {
    if (size_ == kMaxDims) detail::refuse_dim();
    values_[size_++] = value;
  }
  constexpr void pop_back() { --size_; }
  constexpr void clear() { size_ = 0; }
  constexpr void insert(std::size_t at, std::int64_t value) {
    push_back(value);
    for (std::size_t i = size_ - 1U; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = value;
  }
  constexpr void erase(std::size_t at) {
    pop_back();
    for (std::size_t i = at; i < size_; ++i) values_[i] = values_[i + 1];
  }
  [[nodiscard]] constexpr bool contains(std::int64_t value) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (values_[i] == value) return true;
    }
    return false;
  }
  constexpr operator std::span<const std::int64_t>() const { return {values_.data(), size_}; }
  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {  // not std::equal: its memcmp is a call, for a few numbers
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxDims> values_{};
  std::uint8_t size_ = 0;
};

using Shape = Dims;

/// The dims of a reduction: one number or a list, `sum(x, -1)` or `sum(x, {0, 2})`.
class ReducedDims : public Dims {
 public:
  ReducedDims() = default;
  ReducedDims(std::initializer_list<std::int64_t> dims) : Dims(dims) {}
  ReducedDims(const Dims& dims) : Dims(dims) {}
  template <std::integral I>
  requires(!std::same_as<I, bool>) ReducedDims(I dim) : Dims{static_cast<std::int64_t>(dim)} {}
};

}  // namespace mezzo
