// How the input of a reduction is cut into blocks, for all types and reducers.
#include "mezzo/kernels/reduce/cpu_source.h"

#include <algorithm>
#include <cstdlib>

namespace mezzo::kernels::cpu::detail {

namespace {

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

/// Memory of a block of any dtype.
struct BlockBuffer {
  alignas(64) std::byte bytes[kBlockElements * 8];
};

}  // namespace

const void* ReduceSource::read(const StridedSpace& space, std::int64_t origin, std::int64_t begin,
                               std::int64_t n, DType to, void* buffer) const {
  const std::byte* in_place = nullptr;
  auto* const target = static_cast<std::byte*>(buffer);
  space.each_run(begin, n,
                 [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
                   const std::byte* from = at(origin + offset);
                   if (stride == 1 && count == n && dtype_ == to)
                     in_place = from;
                   else
                     gather(from, dtype_, stride, target + done * size_of(to), to, count);
                 });
  return in_place != nullptr ? in_place : buffer;
}

void ReduceSource::each_block(const ReducePlan& plan, std::int64_t first, std::int64_t n,
                              ReducePlan::Range elements, DType type, const BlockTaker& take) const {
  const auto outputs = plan.kept_in.single_run(first, n);
  plan.reduced.each_run(
      elements.begin, elements.size,
      [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
        const std::int64_t row = elements.begin + done;
        if (!outputs) return scattered(plan.kept_in, first, n, {offset, stride}, {row, count}, type, take);
        const StridedSpace::Run across{offset + outputs->offset, outputs->stride};
        if (across.stride != 1) return copied(across, n, stride, {row, count}, type, take);
        if (dtype_ != type) return widened(across.offset, n, stride, {row, count}, type, take);
        take.take(take.taker, {at(across.offset), stride, row, count, 0, n});
      });
}

/// Outputs that do not lie at regular distances: row by row.
void ReduceSource::scattered(const StridedSpace& kept, std::int64_t first, std::int64_t n,
                             StridedSpace::Run down, ReducePlan::Range rows, DType type,
                             const BlockTaker& take) const {
  TileBuffer<double> buffer;
  static_assert(kReduceUnit <= kTile);
  for (std::int64_t r = 0; r < rows.size; ++r) {
    const void* x = read(kept, down.offset + r * down.stride, first, n, type, buffer.values);
    take.take(take.taker, {x, 0, rows.begin + r, 1, 0, n});
  }
}

/// Rows without gaps of another dtype; those that lie one after the other are widened together.
void ReduceSource::widened(std::int64_t offset, std::int64_t n, std::int64_t stride, ReducePlan::Range rows,
                           DType type, const BlockTaker& take) const {
  BlockBuffer buffer;
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
      convert(at(offset + (r + k) * stride), dtype_, buffer.bytes + k * n * size_of(type), type, size);
    }
    take.take(take.taker, {buffer.bytes, n, rows.begin + r, high, 0, n});
  }
}

/// Outputs with gaps between them: copied along the memory.
void ReduceSource::copied(StridedSpace::Run across, std::int64_t n, std::int64_t stride,
                          ReducePlan::Range rows, DType type, const BlockTaker& take) const {
  BlockBuffer buffer;
  const bool narrow = std::abs(stride) < std::abs(across.stride);
  const std::int64_t width = narrow ? std::min(n, kNarrowBlock) : n;
  const std::int64_t pitch = width + kBlockGap, height = kBlockElements / pitch;
  for (std::int64_t r = 0; r < rows.size; r += height) {
    const std::int64_t high = std::min(height, rows.size - r);
    for (std::int64_t c = 0; c < n; c += width) {
      const std::int64_t wide = std::min(width, n - c);
      copy(across.offset + r * stride + c * across.stride, stride, across.stride, high, wide, type,
           buffer.bytes, pitch);
      take.take(take.taker, {buffer.bytes, pitch, rows.begin + r, high, c, wide});
    }
  }
}

/// A block from `offset` on as `type`, row r `r * pitch` elements behind `buffer`.
void ReduceSource::copy(std::int64_t offset, std::int64_t row_stride, std::int64_t column_stride,
                        std::int64_t rows, std::int64_t columns, DType type, std::byte* buffer,
                        std::int64_t pitch) const {
  const auto as_stored = [&](std::byte* dst) {
    const auto copy_bits = [&]<class U>(U) {
      copy_block(reinterpret_cast<const U*>(at(offset)), row_stride, column_stride, rows, columns,
                 reinterpret_cast<U*>(dst), pitch);
    };
    with_bits(size_of(dtype_), copy_bits);
  };
  if (dtype_ == type) return as_stored(buffer);
  BlockBuffer stored;
  as_stored(stored.bytes);
  for (std::int64_t r = 0; r < rows; ++r)
    convert(stored.bytes + r * pitch * size_of(dtype_), dtype_, buffer + r * pitch * size_of(type), type,
            columns);
}

}  // namespace mezzo::kernels::cpu::detail
