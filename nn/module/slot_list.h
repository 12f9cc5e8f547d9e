// SlotList: a list of slots that can grow.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace mezzo::nn {

/// Slots, or structs of slots, that are made where they stay: a slot has identity, so growing moves none. A
/// member of a module; copied as part of `Module::clone()`, element by element.
template <class T>
class SlotList {
 public:
  SlotList() = default;
  SlotList(const SlotList& other) {
    for (const T& item : other) emplace_back(item);
  }
  SlotList& operator=(const SlotList&) = delete;

  /// Makes a last element of these arguments. When that throws, the list is as it was.
  template <class... Args>
  T& emplace_back(Args&&... args) {
    items_.emplace_back();
    try {
      items_.back() = std::make_unique<T>(std::forward<Args>(args)...);
    } catch (...) {
      items_.pop_back();
      throw;
    }
    return *items_.back();
  }

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return *items_[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return *items_[i]; }
  [[nodiscard]] auto begin() noexcept { return Iterator<T>{items_.data()}; }
  [[nodiscard]] auto end() noexcept { return Iterator<T>{items_.data() + size()}; }
  [[nodiscard]] auto begin() const noexcept { return Iterator<const T>{items_.data()}; }
  [[nodiscard]] auto end() const noexcept { return Iterator<const T>{items_.data() + size()}; }

 private:
  template <class Item>
  struct Iterator {
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = Item*;
    using reference = Item&;
    using iterator_category = std::forward_iterator_tag;

    const std::unique_ptr<T>* at = nullptr;

    Item& operator*() const { return **at; }
    Item* operator->() const { return at->get(); }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    Iterator operator++(int) { return {at++}; }
    friend bool operator==(Iterator, Iterator) = default;
  };

  std::vector<std::unique_ptr<T>> items_;
};

}  // namespace mezzo::nn
