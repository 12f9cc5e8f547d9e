// The way of tiles that do not lie right in memory: gathering, widening, narrowing, scattering. For any dtype
// by its size, so that loops of all types share it.
#include "mezzo/kernels/cpu/tile.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mezzo::kernels::cpu {

namespace {

/// Fills `values` with copies of its first `period` elements until there are n.
void repeat(std::byte* values, std::int64_t period, std::int64_t n, std::int64_t size) {
  for (std::int64_t done = period; done < n; done *= 2)
    std::memcpy(values + done * size, values, static_cast<std::size_t>(std::min(done, n - done) * size));
}

}  // namespace

template <class F>
void TileOperand::each_run(std::int64_t begin, std::int64_t n, F f) const {
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

std::int64_t TileOperand::repeats_after() const {
  const bool repeats = shape_.size() == 2 && strides_[0] == 0;
  return repeats ? shape_[1] : layout::numel(shape_);
}

void TileOperand::gather_tile(std::int64_t begin, std::int64_t n, DType to, std::byte* values) const {
  if (linear_) return convert(at(begin), dtype_, values, to, n);
  const std::int64_t period = std::min(repeats_after(), n);
  gather_runs(begin, period, to, values);
  repeat(values, period, n, size_of(to));
}

void TileOperand::gather_runs(std::int64_t begin, std::int64_t n, DType to, std::byte* values) const {
  const std::int64_t size = size_of(to);
  each_run(begin, n, [&](std::byte* at, std::int64_t stride, std::int64_t done, std::int64_t count) {
    std::byte* const run = values + done * size;
    if (stride == 1 && dtype_ == to) {
      std::memcpy(run, at, static_cast<std::size_t>(count * size));
      return;
    }
    const bool repeated = stride == 0 && count > 1;  // a broadcast value: convert it once
    gather(at, dtype_, stride, run, to, repeated ? 1 : count);
    if (repeated) repeat(run, 1, count, size);
  });
}

void TileOperand::write(std::int64_t begin, std::int64_t n, DType from, const void* values) const {
  if (linear_) return convert(values, from, at(begin), dtype_, n);
  const auto* const source = static_cast<const std::byte*>(values);
  each_run(begin, n, [&](std::byte* at, std::int64_t stride, std::int64_t done, std::int64_t count) {
    scatter(source + done * size_of(from), from, at, dtype_, stride, count);
  });
}

TileOperand tiles_in_memory_order(const View& view) {
  if (layout::is_contiguous(view.shape, view.strides)) return TileOperand(view);
  const View ordered = in_memory_order(view);
  Shape shape = ordered.shape;
  std::array<Dims, 1> strides{ordered.strides};
  layout::collapse(shape, strides);
  return {view, shape, strides[0]};
}

}  // namespace mezzo::kernels::cpu
