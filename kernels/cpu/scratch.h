// Memory that a thread keeps between calls, for tiles: fresh memory of that size would be taken from the
// system, page by page, each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mezzo/core/memory/per_thread.h"

namespace mezzo::kernels::cpu {

/// A buffer that grows to the largest size it was asked for; one per thread (core/memory/per_thread.h).
class Scratch {
 public:
  /// Room for `count` numbers, 64-byte aligned, their values undefined. Good until the next call.
  template <class T>
  T* get(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T) + kAlignment;
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    void* start = memory_.get();
    std::size_t space = size_;
    return static_cast<T*>(std::align(kAlignment, bytes - kAlignment, start, space));
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace mezzo::kernels::cpu
