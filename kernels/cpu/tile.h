// Tiles: how a CPU loop sees a strided array of any dtype as short runs of its compute type. A tile that lies
// right in memory is used in place; any other is gathered or widened into a buffer of a few KB, and results
// are narrowed on the way back.
#pragma once

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

  /// Elements [begin, begin + n) as `to` (n <= kTile): the array itself when it holds them so, else `buffer`.
  const void* read(std::int64_t begin, std::int64_t n, DType to, void* buffer) const {
    if (in_place(to)) return at(begin);
    gather_tile(begin, n, to, static_cast<std::byte*>(buffer));
    return buffer;
  }
  template <class T>
  const T* read(std::int64_t begin, std::int64_t n, TileBuffer<T>& buffer) const {
    return static_cast<const T*>(read(begin, n, dtype_of<T>, buffer.values));
  }

  /// Where a tile of results of type `from` goes before `finish`: the array itself or `buffer`.
  void* target(std::int64_t begin, DType from, void* buffer) const {
    return in_place(from) ? at(begin) : buffer;
  }
  template <class T>
  T* target(std::int64_t begin, TileBuffer<T>& buffer) const {
    return static_cast<T*>(target(begin, dtype_of<T>, buffer.values));
  }
  /// Narrows and scatters a tile whose results are in `buffer`; nothing to do when they are in place.
  void finish(std::int64_t begin, std::int64_t n, DType from, const void* buffer) const {
    if (!in_place(from)) write(begin, n, from, buffer);
  }
  template <class T>
  void finish(std::int64_t begin, std::int64_t n, const TileBuffer<T>& buffer) const {
    finish(begin, n, dtype_of<T>, buffer.values);
  }
  /// Stores n values of type `from` at `begin`, converted to the array's dtype.
  void write(std::int64_t begin, std::int64_t n, DType from, const void* values) const;

  /// Asks for the memory of [begin, begin + n), if there is any, while what comes before it is worked on.
  void prefetch(std::int64_t begin, std::int64_t n) const {
    if (!linear_) return;
    const std::byte* const end = at(begin + n);
    for (const std::byte* line = at(begin); line < end; line += 64) __builtin_prefetch(line, 1);
  }

  /// Whether tiles of that type are used where they lie.
  [[nodiscard]] bool in_place(DType type) const { return linear_ && dtype_ == type; }

 private:
  [[nodiscard]] std::byte* at(std::int64_t element) const { return base_ + element * size_of(dtype_); }
  /// Elements [begin, begin + n), converted and one after the other.
  void gather_tile(std::int64_t begin, std::int64_t n, DType to, std::byte* values) const;
  void gather_runs(std::int64_t begin, std::int64_t n, DType to, std::byte* values) const;
  /// After how many elements the values repeat, as a row that is broadcast to a matrix does; else no less
  /// than all of them.
  [[nodiscard]] std::int64_t repeats_after() const;
  /// Splits [begin, begin + n) into runs along the last dim: f(address, stride, elements before it, length).
  template <class F>
  void each_run(std::int64_t begin, std::int64_t n, F f) const;

  std::byte* base_;
  DType dtype_;
  Shape shape_;
  Dims strides_;
  bool linear_;
};

/// A tensor in the order of its memory: a dense one with its dims in any order is one run.
[[nodiscard]] TileOperand tiles_in_memory_order(const View& view);

}  // namespace mezzo::kernels::cpu
