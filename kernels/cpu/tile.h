// Tiles: how a CPU loop sees a strided array of any dtype as short runs of its compute type. A tile that lies
// right in memory is used in place; any other is gathered or widened into a buffer of a few KB, and results
// are narrowed on the way back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "mezzo/core/layout.h"
#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cpu {

/// Elements per tile: 4 KiB of f32, so that a handful of operands stays in the first-level cache.
inline constexpr std::int64_t kTile = 1024;

/// Memory of a tile in a compute type, on the stack of the loop.
template <class T>
struct TileBuffer {
  alignas(64) T values[kTile];
};

/// An operand of a loop over `shape` in row-major order, with strides for that shape.
class TileOperand {
 public:
  TileOperand(const View& view, const Shape& shape, const Dims& strides)
      : base_(static_cast<std::byte*>(view.data)),
        dtype_(view.dtype),
        shape_(shape),
        strides_(strides),
        linear_(layout::is_contiguous(shape, strides)) {}

  /// The elements of a view that lie one after the other, in order.
  explicit TileOperand(const View& contiguous)
      : base_(static_cast<std::byte*>(contiguous.data)), dtype_(contiguous.dtype), linear_(true) {}

  /// Elements [begin, begin + n) as T (n <= kTile): the array itself when it holds them so, else `buffer`.
  template <class T>
  const T* read(std::int64_t begin, std::int64_t n, TileBuffer<T>& buffer) const {
    constexpr DType to = dtype_of<T>;
    if (linear_ && dtype_ == to) return reinterpret_cast<const T*>(base_) + begin;
    if (linear_) {
      convert(base_ + begin * size_of(dtype_), dtype_, buffer.values, to, n);
      return buffer.values;
    }
    const std::int64_t period = std::min(repeats_after(), n);
    gather_runs(begin, period, buffer.values);
    for (std::int64_t done = period; done < n; done *= 2) {
      std::copy_n(buffer.values, std::min(done, n - done), buffer.values + done);
    }
    return buffer.values;
  }

  /// Where a tile of results of type T goes before `finish`: the array itself or `buffer`.
  template <class T>
  T* target(std::int64_t begin, TileBuffer<T>& buffer) const {
    return linear_ && dtype_ == dtype_of<T> ? reinterpret_cast<T*>(base_) + begin : buffer.values;
  }
  /// Narrows and scatters a tile whose results are in `buffer`; nothing to do when they are in place.
  template <class T>
  void finish(std::int64_t begin, std::int64_t n, const TileBuffer<T>& buffer) const {
    if (!linear_ || dtype_ != dtype_of<T>) write<T>(begin, n, buffer.values);
  }
  /// Stores n values at `begin`, converted to the array's dtype.
  template <class T>
  void write(std::int64_t begin, std::int64_t n, const T* values) const {
    constexpr DType from = dtype_of<T>;
    if (linear_) {
      convert(values, from, base_ + begin * size_of(dtype_), dtype_, n);
      return;
    }
    each_run(begin, n, [&](std::byte* at, std::int64_t stride, std::int64_t done, std::int64_t count) {
      scatter(values + done, from, at, dtype_, stride, count);
    });
  }

 private:
  /// After how many elements the values repeat, as those of a row that is broadcast to a matrix; else no less
  /// than all of them.
  [[nodiscard]] std::int64_t repeats_after() const {
    const bool repeats = shape_.size() == 2 && strides_[0] == 0;
    return repeats ? shape_[1] : layout::numel(shape_);
  }

  /// Elements [begin, begin + n), converted and one after the other.
  template <class T>
  void gather_runs(std::int64_t begin, std::int64_t n, T* values) const {
    constexpr DType to = dtype_of<T>;
    each_run(begin, n, [&](std::byte* at, std::int64_t stride, std::int64_t done, std::int64_t count) {
      if (stride == 1 && dtype_ == to) {
        std::copy_n(reinterpret_cast<const T*>(at), count, values + done);
        return;
      }
      const bool repeated = stride == 0 && count > 1;  // a broadcast value: convert it once
      gather(at, dtype_, stride, values + done, to, repeated ? 1 : count);
      if (repeated) std::fill_n(values + done + 1, count - 1, values[done]);
    });
  }

  /// Splits [begin, begin + n) into runs along the last dim: f(address, stride, elements before it, length).
  template <class F>
  void each_run(std::int64_t begin, std::int64_t n, F f) const {
    const std::size_t rank = shape_.size();
    Dims index(rank, 0);
    std::int64_t rest = begin;
    for (std::size_t d = rank; d-- > 0;) {
      index[d] = rest % shape_[d];
      rest /= shape_[d];
    }
    std::int64_t done = 0;
    while (done < n) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < rank; ++d) offset += index[d] * strides_[d];
      const std::int64_t inner = rank == 0 ? 1 : shape_[rank - 1] - index[rank - 1];
      const std::int64_t count = std::min(inner, n - done);
      f(base_ + offset * size_of(dtype_), rank == 0 ? 1 : strides_[rank - 1], done, count);
      done += count;
      if (rank == 0) return;
      index[rank - 1] += count;
      for (std::size_t d = rank - 1; d > 0 && index[d] == shape_[d]; --d) {
        index[d] = 0;
        ++index[d - 1];
      }
    }
  }

  std::byte* base_;
  DType dtype_;
  Shape shape_;
  Dims strides_;
  bool linear_;
};

}  // namespace mezzo::kernels::cpu
