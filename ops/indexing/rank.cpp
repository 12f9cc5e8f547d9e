// kthvalue and median: positions by argsort, values by gather, which gradients follow.
#include <string>

#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;

/// The elements at `index`, which has one position along `dim`. A 0-dim x is one of shape [1].
ValuesIndices chosen(const Tensor& x, const Tensor& index, std::int64_t dim, bool keepdim) {
  const Tensor values = gather(x.dim() == 0 ? reshape(x, {1}) : x, dim, index);
  if (x.dim() == 0) return {reshape(values, {}), reshape(index, {})};
  if (keepdim) return {values, index};
  return {squeeze(values, dim), squeeze(index, dim)};
}

/// The tensor that is sorted: x without history, and with a dim.
Tensor with_dim(const Tensor& x) { return x.dim() == 0 ? reshape(x.detach(), {1}) : x.detach(); }

}  // namespace

ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim, bool keepdim) {
  require_defined("kthvalue", x);
  const Tensor rows = with_dim(x);
  const std::int64_t at = layout::wrap_dim("kthvalue", dim, rows.shape().size());
  if (k < 1 || k > rows.size(at)) {
    throw ValueError("kthvalue", "k in [1, " + std::to_string(rows.size(at)) + "]", std::to_string(k),
                     "the smallest element has k = 1");
  }
  const Tensor index = narrow(argsort(rows, at), at, k - 1, 1);
  return chosen(x, index, at, keepdim);
}

ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  require_defined("median", x);
  const Tensor rows = with_dim(x);
  const std::int64_t at = layout::wrap_dim("median", dim, rows.shape().size()), size = rows.size(at);
  if (size == 0) {
    throw ShapeError("median", "at least one element along dim " + std::to_string(at),
                     "shape " + to_string(x.shape()), "leave empty tensors out");
  }
  const Tensor order = argsort(rows, at);
  Tensor position = full_like(narrow(order, at, 0, 1), (size - 1) / 2);
  if (is_floating(x.dtype())) {
    // NaNs stand at the end: the first of them where there is one.
    const Tensor nans = sum(isnan(rows), at, true);
    position = where(gt(nans, 0), sub(size, nans), position);
  }
  return chosen(x, gather(order, at, position), at, keepdim);
}

Tensor median(const Tensor& x) {
  require_defined("median", x);
  return median(reshape(x, {-1}), 0).values;
}

}  // namespace mezzo
