// One all-to-all, by which each rank gets its part of all ranks' values, and the sum of these in a binary
// tree.
#include "mezzo/dist/detail/tree_sum.h"

#include "mezzo/ops/ops.h"

namespace mezzo::dist {

namespace {

/// Of parts [begin, end).
Tensor sum_of(const Tensor& parts, std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) {
    const Tensor part = select(parts, 0, begin);
    return is_16bit(part.dtype()) ? part.to(DType::f32) : part;
  }
  const std::int64_t middle = begin + (end - begin + 1) / 2;
  return add(sum_of(parts, begin, middle), sum_of(parts, middle, end));
}

}  // namespace

Tensor tree_sum(const Tensor& parts) { return sum_of(parts, 0, parts.shape()[0]); }

Tensor tree_reduce_scatter(Transport& transport, const Tensor& flat) {
  const std::int64_t p = transport.size();
  const std::int64_t n = flat.numel() / p;
  const Tensor received = empty({p, n}, {.dtype = flat.dtype(), .device = flat.device()});
  transport.all_to_all(flat.impl().data(), received.impl().data(),
                       static_cast<std::size_t>(n * size_of(flat.dtype())));
  return tree_sum(received);
}

}  // namespace mezzo::dist
