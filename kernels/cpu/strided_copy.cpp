// The blocks of a strided copy. They wait for memory, so 16-byte vectors are enough.
#include "mezzo/kernels/cpu/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mezzo/kernels/cpu/convert.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/transpose.h"

namespace mezzo::kernels::cpu {

namespace {

/// Elements that one thread takes at a time, at the least.
constexpr std::int64_t kGrain = 32768;
/// Side of a block that is transposed, in bytes of the source: four cache lines.
constexpr std::int64_t kSide = 256;
/// Rows of such a block at most, and the gap between its rows in the buffer, without which rows of a power of
/// two would fall on the same few cache lines.
constexpr std::int64_t kMostRows = 128, kGap = 64;
/// So many rows ahead memory is asked for: rows are too short for the processor to see that more will follow.
constexpr std::int64_t kAhead = 8;
/// Runs shorter than this, in bytes, are copied element by element; up to kLongRun a call of memcpy would
/// take longer than the copy.
constexpr std::int64_t kShortRun = 64, kLongRun = 512;
/// Fewer elements than this in a row or a column are not worth the way through the buffer.
constexpr std::int64_t kLeastSide = 12;

MEZZO_ALWAYS_INLINE void prefetch(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(from + b);
}
MEZZO_ALWAYS_INLINE void prefetch_to_write(const std::byte* to, std::int64_t bytes) {
  for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(to + b, 1);
}

/// `bytes` bytes, kShortRun or more of them, as 16-byte vectors; the last piece may overlap the piece before.
MEZZO_ALWAYS_INLINE void copy_short(const std::byte* from, std::byte* to, std::int64_t bytes) {
  constexpr std::int64_t kBytes = 16;
  for (std::int64_t b = 0; b < bytes - kBytes; b += kBytes) std::memcpy(to + b, from + b, kBytes);
  std::memcpy(to + bytes - kBytes, from + bytes - kBytes, kBytes);
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

StridedCopy::StridedCopy(const View& out, const View& in)
    : to_(static_cast<std::byte*>(out.data)),
      from_(static_cast<const std::byte*>(in.data)),
      to_dtype_(out.dtype),
      from_dtype_(in.dtype),
      outer_(out.shape) {
  std::array<Dims, 2> strides{out.strides, in.strides};
  layout::order_along(outer_, strides, 0);
  layout::collapse(outer_, strides);
  outer_to_ = strides[0];
  outer_from_ = strides[1];
  choose_dims();
  cut();
}

/// Takes the inner dims out of the outer dims: the columns, along which the result lies, and as rows the dim
/// along which the source does, or else the next one.
void StridedCopy::choose_dims() {
  const auto take = [&](std::size_t d) {
    const Inner inner{outer_[d], outer_to_[d], outer_from_[d]};
    outer_.erase(d);
    outer_to_.erase(d);
    outer_from_.erase(d);
    return inner;
  };
  if (outer_.empty()) {
    column_ = {1, 1, 1};
  } else {
    column_ = take(outer_.size() - 1);
    std::size_t nearest = outer_.size();
    for (std::size_t d = 0; d < outer_.size(); ++d) {
      if (outer_from_[d] == 1 && column_.from != 1) nearest = d;
    }
    if (!outer_.empty()) row_ = take(nearest < outer_.size() ? nearest : outer_.size() - 1);
  }
  outer_count_ = layout::numel(outer_);
}

void StridedCopy::cut() {
  const std::int64_t size = size_of(from_dtype_), side = kSide / size;
  const bool same = to_dtype_ == from_dtype_;
  // From one 16-bit float to the other the way through f32 is faster.
  if (!same && is_floating(to_dtype_) && is_floating(from_dtype_) && size == 2 && size_of(to_dtype_) == 2)
    return;
  if (column_.from == 1 && column_.to == 1 && column_.size * size >= kShortRun) {
    way_ = Way::runs;
    wide_ = std::min(column_.size, kGrain);
    high_ = std::max<std::int64_t>(kGrain / wide_, 1);
  } else if (row_.from == 1 && column_.to == 1 &&
             std::min(row_.size, column_.size) >= std::max(kLeastSide, 16 / size)) {
    way_ = Way::transposed;
    high_ = side;
    wide_ = std::min(side, kMostRows);
  } else if (same) {
    way_ = Way::single;
    wide_ = std::min(column_.size, std::max(side, side * side / row_.size));
    high_ = std::max<std::int64_t>(side * side / wide_, 1);
  }
  high_ = std::min(high_, row_.size);
  wide_ = std::min(wide_, column_.size);
  row_blocks_ = divide_up(row_.size, high_);
  column_blocks_ = divide_up(column_.size, wide_);
}

StridedCopy::Block StridedCopy::block(std::int64_t index) const {
  const std::int64_t column = index % column_blocks_ * wide_;
  index /= column_blocks_;
  const std::int64_t row = index % row_blocks_ * high_;
  index /= row_blocks_;
  std::int64_t to = row * row_.to + column * column_.to, from = row * row_.from + column * column_.from;
  for (std::size_t d = outer_.size(); d-- > 0; index /= outer_[d]) {
    const std::int64_t at = index % outer_[d];
    to += at * outer_to_[d];
    from += at * outer_from_[d];
  }
  return {to_ + to * size_of(to_dtype_), from_ + from * size_of(from_dtype_),
          std::min(high_, row_.size - row), std::min(wide_, column_.size - column)};
}

void StridedCopy::run(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t at = begin; at < end; ++at) {
    const Block here = block(at);
    if (way_ == Way::runs) {
      copy_runs(here);
      continue;
    }
    with_bits(size_of(from_dtype_), [&]<class U>(U) {
      if (way_ == Way::single)
        copy_single<U>(here);
      else
        copy_transposed<U>(here, at + 1 < end ? block(at + 1).from : here.from);
    });
  }
}

void StridedCopy::copy_runs(const Block& block) const {
  const std::int64_t to_step = row_.to * size_of(to_dtype_), from_step = row_.from * size_of(from_dtype_);
  if (to_dtype_ == from_dtype_) {
    const std::int64_t bytes = block.columns * size_of(to_dtype_);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      if (bytes <= kLongRun)
        copy_short(block.from + r * from_step, block.to + r * to_step, bytes);
      else
        std::memcpy(block.to + r * to_step, block.from + r * from_step, static_cast<std::size_t>(bytes));
    }
    return;
  }
  for (std::int64_t r = 0; r < block.rows; ++r)
    convert(block.from + r * from_step, from_dtype_, block.to + r * to_step, to_dtype_, block.columns);
}

template <class U>
void StridedCopy::copy_single(const Block& block) const {
  auto* const to = reinterpret_cast<U*>(block.to);
  const auto* const from = reinterpret_cast<const U*>(block.from);
  const auto walk = [&](const Inner& outer, std::int64_t outer_size, const Inner& inner,
                        std::int64_t inner_size) {
    for (std::int64_t o = 0; o < outer_size; ++o) {
      U* const into = to + o * outer.to;
      const U* const read = from + o * outer.from;
      if (inner.from == 0 && inner.to == 1) {
        std::fill_n(into, inner_size, *read);
        continue;
      }
      for (std::int64_t i = 0; i < inner_size; ++i) into[i * inner.to] = read[i * inner.from];
    }
  };
  if (block.rows > block.columns)
    walk(column_, block.columns, row_, block.rows);
  else
    walk(row_, block.rows, column_, block.columns);
}

/// A row of the source is a column here. They are copied into a buffer one by one, each as a whole, so that
/// no cache line is fetched twice. Then a few rows of results at a time are transposed, and stored as a
/// whole.
template <class U>
void StridedCopy::copy_transposed(const Block& block, const std::byte* next) const {
  constexpr std::int64_t kSize = sizeof(U), kVector = detail::Register<U>::kCount,
                         kPitch = (kSide + kGap) / kSize;
  constexpr std::int64_t kMost = std::min(kSide / kSize, kMostRows);
  alignas(64) U buffer[kMost * kPitch];
  alignas(64) U results[kVector * kMost];
  const std::int64_t from_step = column_.from * kSize, to_size = size_of(to_dtype_),
                     to_step = row_.to * to_size;
  const std::int64_t from_bytes = block.rows * kSize, to_bytes = block.columns * to_size;
  for (std::int64_t c = 0; c < block.columns; ++c) {
    if (c + kAhead < block.columns)
      prefetch(block.from + (c + kAhead) * from_step, from_bytes);
    else if (const std::int64_t r = c + kAhead - block.columns; r < block.rows)
      prefetch_to_write(block.to + r * to_step, to_bytes);
    std::memcpy(buffer + c * kPitch, block.from + c * from_step, static_cast<std::size_t>(from_bytes));
  }
  for (std::int64_t r = 0; r < block.rows; r += kVector) {
    const std::int64_t count = std::min(kVector, block.rows - r);
    for (std::int64_t k = 0; k < count; ++k) {
      if (const std::int64_t ahead = r + k + kAhead; ahead < block.rows)
        prefetch_to_write(block.to + ahead * to_step, to_bytes);
      else if (ahead - block.rows < block.columns)
        prefetch(next + (ahead - block.rows) * from_step, from_bytes);
    }
    // Elements behind the last row or column of the block are transposed with it and not stored.
    for (std::int64_t c = 0; c < block.columns; c += kVector)
      detail::transpose_square(buffer + c * kPitch + r, kPitch, results + c, kMost);
    for (std::int64_t k = 0; k < count; ++k)
      convert(results + k * kMost, from_dtype_, block.to + (r + k) * to_step, to_dtype_, block.columns);
  }
}

bool copy_elements(const View& out, const View& in) {
  if (layout::numel(out.shape) == 0) return true;
  const StridedCopy copy(out, in);
  if (!copy.possible()) return false;
  cpu::parallel_for(copy.blocks(), std::max<std::int64_t>(kGrain / copy.block_elements(), 1),
                    [&](std::int64_t begin, std::int64_t end) { copy.run(begin, end); });
  return true;
}

}  // namespace mezzo::kernels::cpu
