// SlotList: a list of slots that can grow.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>

namespace mezzo::nn {

/// Slots, or structs of slots, that are made where they stay: a slot has identity, so growing moves none. A
/// member of a module; copied as part of `Module::clone()`, element by element.
template <class T>
class SlotList : std::list<T> {
 public:
  SlotList() = default;
  SlotList(const SlotList&) = default;
  SlotList& operator=(const SlotList&) = delete;

  using std::list<T>::begin, std::list<T>::end, std::list<T>::size, std::list<T>::emplace_back;
  /// Takes time in proportion to i.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return *std::next(begin(), as_steps(i)); }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return *std::next(begin(), as_steps(i)); }

 private:
  static std::ptrdiff_t as_steps(std::size_t i) noexcept { return static_cast<std::ptrdiff_t>(i); }
};

}  // namespace mezzo::nn
