// Many arrays in one parallel loop: small arrays are taken together, large arrays are cut up, and all threads
// are busy to the end. For optimizers and clipping, whose arrays are many and of any size.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/scratch.h"
#include "mezzo/kernels/cpu/tile.h"

namespace mezzo::kernels::cpu {

/// Arrays side by side, cut into chunks of about equal work. The chunks depend on the sizes only.
class Pieces {
 public:
  /// `size(i)` is the number of elements of array i; pieces of one begin at a multiple of `line` elements,
  /// which divides 16 tiles and is a multiple of a cache line in every dtype. The object is for the thread
  /// that made it, and good until that makes the next one.
  template <class Size>
  Pieces(std::size_t count, const Size& size, std::int64_t line = 64)
      : count_(static_cast<std::int64_t>(count)), line_(line) {
    static constinit mezzo::detail::PerThread<Scratch> memory;
    ends_ = memory.get().get<std::int64_t>(count_);
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      end += line_ + (size(static_cast<std::size_t>(i)) + line_ - 1) / line_ * line_;
      ends_[i] = end;
    }
  }
  [[nodiscard]] std::int64_t chunks() const { return count_ == 0 ? 0 : (ends_[count_ - 1] - 1) / kChunk + 1; }

  /// Calls f(chunk), on all threads when there is work for them; f then asks `each` for its pieces.
  template <class F>
  void run(const F& f) const {
    if (chunks() <= kFew) {
      for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) f(chunk);
      return;
    }
    parallel_for(chunks(), 1, [&](std::int64_t chunk, std::int64_t /*end*/) { f(chunk); });
  }
  /// f(i, begin, end) for the elements [begin, end) of array i, of size(i), that belong to a chunk.
  template <class Size, class F>
  void each(std::int64_t chunk, const Size& size, const F& f) const {
    const std::int64_t from = chunk * kChunk, to = from + kChunk;
    std::int64_t i = std::upper_bound(ends_, ends_ + count_, from) - ends_;
    for (; i < count_; ++i) {
      const std::int64_t start = (i == 0 ? 0 : ends_[i - 1]) + line_;
      if (start >= to) return;
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t begin = std::max<std::int64_t>(from - start, 0);
      const std::int64_t end = std::min(to - start, size(at));
      if (begin < end) f(at, begin, end);
    }
  }

 private:
  static constexpr std::int64_t kChunk = 16 * kTile;
  /// Chunks that stay with the caller: 0.1 ms of work, of which another thread saves a half at best, and
  /// which waits for many times that when the other thread's core is busy elsewhere.
  static constexpr std::int64_t kFew = 16;
  std::int64_t count_;
  std::int64_t line_;  ///< also what an array costs besides its elements, in elements
  std::int64_t* ends_;
};

}  // namespace mezzo::kernels::cpu
