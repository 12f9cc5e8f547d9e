// A set of addresses, for walks over models of many thousand modules: without a piece of memory per entry, as
// std::unordered_set has it. Internal to nn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mezzo::nn {

class PointerSet {
 public:
  /// Whether `pointer` (not nullptr) was not there before.
  bool insert(const void* pointer) {
    if (2 * (size_ + 1) > places_.size()) grow();
    const void*& place = places_[find(pointer)];
    if (place == pointer) return false;
    place = pointer;
    ++size_;
    return true;
  }
  [[nodiscard]] bool contains(const void* pointer) const {
    return size_ > 0 && places_[find(pointer)] == pointer;
  }

 private:
  /// Where a pointer is or would be. At least half of the places are empty, so one is found.
  [[nodiscard]] std::size_t find(const void* pointer) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t i =
        static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(pointer) * 0x9E3779B97F4A7C15U) >> 32) &
        mask;
    while (places_[i] != nullptr && places_[i] != pointer) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<const void*> former(places_.empty() ? 16 : 2 * places_.size(), nullptr);
    former.swap(places_);
    for (const void* pointer : former) {
      if (pointer != nullptr) places_[find(pointer)] = pointer;
    }
  }

  std::vector<const void*> places_;  // a power of two of them
  std::size_t size_ = 0;
};

}  // namespace mezzo::nn
