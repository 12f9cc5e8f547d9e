// How the input of a reduction is cut into blocks, for all types and reducers.
#include "mezzo/kernels/reduce/cpu_source.h"

#include <algorithm>
#include <cstdlib>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/strided_copy.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cpu::detail {

namespace {

/// Elements in the copy of a block, and between its rows a gap, or rows of a power of two would all fall on
/// the same few cache lines.
inline constexpr std::int64_t kBlockElements = 8192, kBlockGap = 16;
inline constexpr std::int64_t kPrefetchRows = 4;
/// A block whose memory runs down the columns is narrow and high.
inline constexpr std::int64_t kNarrowBlock = 112;

/// Memory of a block of any dtype.
struct BlockBuffer {
  alignas(64) std::byte bytes[kBlockElements * 8];
};

/// Short rows of bf16 as f32: a call of convert() for each would take longer than its work.
struct WidenRows {
  static void run(const BFloat16* x, std::int64_t stride, float* y, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const BFloat16* const row = x + r * stride;
      const auto* const ahead = reinterpret_cast<const std::byte*>(row + kPrefetchRows * stride);
      for (std::int64_t b = 0; b < 2 * n; b += 64) __builtin_prefetch(ahead + b);
      for (std::int64_t i = 0; i < n; ++i) y[r * n + i] = cast<float>(row[i]);
    }
  }
};

/// to = from, on this thread; of one dtype.
void copy_bits(const View& to, const View& from) {
  const StridedCopy copy(to, from);
  copy.run(0, copy.blocks());
}

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
  plan.reduced.each_run(elements.begin, elements.size,
                        [&](std::int64_t offset, std::int64_t stride, std::int64_t done, std::int64_t count) {
                          const std::int64_t row = elements.begin + done;
                          if (!outputs || outputs->stride != 1)
                            return copied(plan.kept_in, first, n, {offset, stride}, {row, count}, type, take);
                          const std::int64_t start = offset + outputs->offset;
                          if (dtype_ != type) return widened(start, n, stride, {row, count}, type, take);
                          take.take(take.taker, {at(start), stride, row, count, 0, n});
                        });
}

/// Outputs that are not neighbours: copied along the memory, some of them and some rows at a time.
void ReduceSource::copied(const StridedSpace& kept, std::int64_t first, std::int64_t n,
                          StridedSpace::Run down, ReducePlan::Range rows, DType type,
                          const BlockTaker& take) const {
  BlockBuffer buffer, stored;
  const bool same = dtype_ == type;
  const std::int64_t width = std::min(n, kNarrowBlock), pitch = width + kBlockGap,
                     height = kBlockElements / pitch;
  for (std::int64_t r = 0; r < rows.size; r += height) {
    const std::int64_t high = std::min(height, rows.size - r);
    for (std::int64_t c = 0; c < n; c += width) {
      const std::int64_t wide = std::min(width, n - c);
      std::byte* const bits = same ? buffer.bytes : stored.bytes;
      kept.each_box(first + c, wide,
                    [&](std::int64_t done, std::int64_t offset, const Shape& box, const Dims& strides) {
                      View to{bits + done * size_of(dtype_), dtype_, box, layout::contiguous_strides(box)};
                      View from{const_cast<std::byte*>(at(offset + down.offset + r * down.stride)), dtype_,
                                box, strides};
                      for (View* view : {&to, &from}) view->shape.insert(0, high);
                      to.strides.insert(0, pitch);
                      from.strides.insert(0, down.stride);
                      copy_bits(to, from);
                    });
      for (std::int64_t k = 0; !same && k < high; ++k)
        convert(bits + k * pitch * size_of(dtype_), dtype_, buffer.bytes + k * pitch * size_of(type), type,
                wide);
      take.take(take.taker, {buffer.bytes, pitch, rows.begin + r, high, c, wide});
    }
  }
}

/// Rows without gaps of another dtype; those that lie one after the other are widened together.
void ReduceSource::widened(std::int64_t offset, std::int64_t n, std::int64_t stride, ReducePlan::Range rows,
                           DType type, const BlockTaker& take) const {
  BlockBuffer buffer;
  const std::int64_t height = kBlockElements / n;
  for (std::int64_t r = 0; r < rows.size; r += height) {
    const std::int64_t high = std::min(height, rows.size - r);
    std::int64_t pieces = stride == n ? 1 : high;
    const std::int64_t size = high / pieces * n;
    if (pieces > 1 && dtype_ == DType::bf16 && type == DType::f32) {
      run_isa<WidenRows>(reinterpret_cast<const BFloat16*>(at(offset + r * stride)), stride,
                         reinterpret_cast<float*>(buffer.bytes), high, n);
      pieces = 0;
    }
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

}  // namespace mezzo::kernels::cpu::detail
