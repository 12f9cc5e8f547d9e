// How the input of a reduction reaches the loops: in place where it lies as they want it, else widened,
// gathered or transposed a block at a time. Apart from the loops because sums and positions of extrema share
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "mezzo/kernels/cpu/reduce_plan.h"

namespace mezzo::kernels::cpu::detail {

/// Elements [row, row + rows) of outputs `column`, `column` + 1, ... of a unit: row r at data + r * pitch.
template <class T>
struct Block {
  const T* data;
  std::int64_t pitch;
  std::int64_t row, rows;
  std::int64_t column, columns;
};

/// Elements in the copy of a block, and between its rows a gap, or rows of a power of two would all fall on
/// the same few cache lines.
inline constexpr std::int64_t kBlockElements = 8192, kBlockGap = 16;
inline constexpr std::int64_t kPrefetchRows = 4;
/// A block whose memory runs down the columns is narrow and high.
inline constexpr std::int64_t kNarrowBlock = 256;

/// dst[r * pitch + c] = the element at src + r * row_stride + c * column_stride (strides in elements), bit by
/// bit, along the memory.
template <class U>
void copy_block(const U* src, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                std::int64_t columns, U* dst, std::int64_t pitch) {
  if (std::abs(row_stride) < std::abs(column_stride)) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r) dst[r * pitch + c] = src[r * row_stride + c * column_stride];
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) dst[r * pitch + c] = src[r * row_stride + c * column_stride];
  }
}

/// An input: where it starts and of what dtype it is.
class ReduceSource {
 public:
  explicit ReduceSource(const View& view)
      : base_(static_cast<const std::byte*>(view.data)), dtype_(view.dtype) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Where positions [begin, begin + n) of `space`, which starts `origin` elements from the start, lie one
  /// after the other; nullptr where they do not.
  [[nodiscard]] const std::byte* packed(const StridedSpace& space, std::int64_t origin, std::int64_t begin,
                                        std::int64_t n) const {
    if (n <= 0) return nullptr;
    const auto run = space.single_run(begin, n);
    return run && run->stride == 1 ? at(origin + run->offset) : nullptr;
  }
  /// The same for elements stored as T; nullptr for others.
  template <class T>
  [[nodiscard]] const T* in_place(const StridedSpace& space, std::int64_t origin, std::int64_t begin,
                                  std::int64_t n) const {
    if (dtype_ != dtype_of<T>) return nullptr;
    return reinterpret_cast<const T*>(packed(space, origin, begin, n));
  }
  /// Positions [begin, begin + n) of `space`, which starts `origin` elements from the start, as T: the array
  /// itself when they lie in it so, else `buffer`.
  template <class T>
  const T* read(const StridedSpace& space, std::int64_t origin, std::int64_t begin, std::int64_t n,
                T* buffer) const {
    const T* in_place = nullptr;
    space.each_run(begin, n,
                   [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
                     const std::byte* from = at(origin + offset);
                     if (stride == 1 && count == n && dtype_ == dtype_of<T>)
                       in_place = reinterpret_cast<const T*>(from);
                     else
                       gather(from, dtype_, stride, buffer + done, dtype_of<T>, count);
                   });
    return in_place != nullptr ? in_place : buffer;
  }

  /// Cuts the given elements of outputs [first, first + n) into blocks, in order of the elements for every
  /// output: take(const Block<T>&).
  template <class T, class Take>
  void each_block(const ReducePlan& plan, std::int64_t first, std::int64_t n, ReducePlan::Range elements,
                  Take take) const {
    const auto outputs = plan.kept_in.single_run(first, n);
    plan.reduced.each_run(
        elements.begin, elements.size,
        [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
          const std::int64_t row = elements.begin + done;
          if (!outputs) return scattered<T>(plan.kept_in, first, n, {offset, stride}, {row, count}, take);
          const StridedSpace::Run across{offset + outputs->offset, outputs->stride};
          if (across.stride != 1) return copied<T>(across, n, stride, {row, count}, take);
          if (dtype_ != dtype_of<T>) return widened<T>(across.offset, n, stride, {row, count}, take);
          const T* in_place = reinterpret_cast<const T*>(at(across.offset));
          take(Block<T>{in_place, stride, row, count, 0, n});
        });
  }

 private:
  [[nodiscard]] const std::byte* at(std::int64_t offset) const { return base_ + offset * size_of(dtype_); }

  /// Outputs that do not lie at regular distances: row by row.
  template <class T, class Take>
  void scattered(const StridedSpace& kept, std::int64_t first, std::int64_t n, StridedSpace::Run down,
                 ReducePlan::Range rows, Take take) const {
    T buffer[kReduceUnit];
    for (std::int64_t r = 0; r < rows.size; ++r) {
      const T* x = read(kept, down.offset + r * down.stride, first, n, buffer);
      take(Block<T>{x, 0, rows.begin + r, 1, 0, n});
    }
  }

  /// Rows without gaps of another dtype; those that lie one after the other are widened together.
  template <class T, class Take>
  void widened(std::int64_t offset, std::int64_t n, std::int64_t stride, ReducePlan::Range rows,
               Take take) const {
    alignas(64) T buffer[kBlockElements];
    const std::int64_t height = kBlockElements / n;
    for (std::int64_t r = 0; r < rows.size; r += height) {
      const std::int64_t high = std::min(height, rows.size - r);
      const std::int64_t pieces = stride == n ? 1 : high, size = high / pieces * n;
      for (std::int64_t k = 0; k < pieces; ++k) {
        // The processor's own prefetching stops at the end of each piece; look ahead for it.
        if (pieces > 1) {
          const std::byte* ahead = at(offset + std::min(r + k + kPrefetchRows, rows.size - 1) * stride);
          for (std::int64_t b = 0; b < n * size_of(dtype_); b += 64) __builtin_prefetch(ahead + b);
        }
        convert(at(offset + (r + k) * stride), dtype_, buffer + k * n, dtype_of<T>, size);
      }
      take(Block<T>{buffer, n, rows.begin + r, high, 0, n});
    }
  }

  /// Outputs with gaps between them: copied along the memory.
  template <class T, class Take>
  void copied(StridedSpace::Run across, std::int64_t n, std::int64_t stride, ReducePlan::Range rows,
              Take take) const {
    alignas(64) T buffer[kBlockElements];
    const bool narrow = std::abs(stride) < std::abs(across.stride);
    const std::int64_t width = narrow ? std::min(n, kNarrowBlock) : n;
    const std::int64_t pitch = width + kBlockGap, height = kBlockElements / pitch;
    for (std::int64_t r = 0; r < rows.size; r += height) {
      const std::int64_t high = std::min(height, rows.size - r);
      for (std::int64_t c = 0; c < n; c += width) {
        const std::int64_t wide = std::min(width, n - c);
        copy(across.offset + r * stride + c * across.stride, stride, across.stride, high, wide, buffer,
             pitch);
        take(Block<T>{buffer, pitch, rows.begin + r, high, c, wide});
      }
    }
  }

  /// A block from `offset` on as T, row r at buffer + r * pitch.
  template <class T>
  void copy(std::int64_t offset, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
            std::int64_t columns, T* buffer, std::int64_t pitch) const {
    const auto as_stored = [&]<class U>(U* dst) {
      copy_block(reinterpret_cast<const U*>(at(offset)), row_stride, column_stride, rows, columns, dst,
                 pitch);
    };
    if (dtype_ == dtype_of<T>) return as_stored(buffer);
    alignas(64) std::byte stored[kBlockElements * 8];
    switch (size_of(dtype_)) {
      case 1:
        as_stored(reinterpret_cast<std::uint8_t*>(stored));
        break;
      case 2:
        as_stored(reinterpret_cast<std::uint16_t*>(stored));
        break;
      case 4:
        as_stored(reinterpret_cast<std::uint32_t*>(stored));
        break;
      default:
        as_stored(reinterpret_cast<std::uint64_t*>(stored));
    }
    for (std::int64_t r = 0; r < rows; ++r)
      convert(stored + r * pitch * size_of(dtype_), dtype_, buffer + r * pitch, dtype_of<T>, columns);
  }

  const std::byte* base_;
  DType dtype_;
};

}  // namespace mezzo::kernels::cpu::detail
