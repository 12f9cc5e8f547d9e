// What the mean of a weighted loss is divided by.
#include "mezzo/nn/loss.h"

#include <algorithm>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

Loss::~Loss() = default;
Tensor Loss::mean_divisor(const Tensor& /*target*/) const { return {}; }

namespace {

/// The sum of the weights of class indices that are not ignored.
Tensor sum_of_weights(const Tensor& target, const Tensor& weight, std::int64_t ignore_index) {
  const PlainOps plain;
  const Tensor counts = target.ne(ignore_index);
  if (!weight.defined()) return sum(counts).to(DType::f64);
  const Tensor rows = where(counts, target, 0).reshape({-1});
  const Tensor weights = index_select(weight.detach(), 0, rows).to(DType::f64);
  return sum(where(counts.reshape({-1}), weights, 0.0));
}

}  // namespace

Tensor NLLLoss::mean_divisor(const Tensor& target) const {
  if (!weighs_targets()) return {};
  return sum_of_weights(target, weight, options_.ignore_index);
}

Tensor CrossEntropyLoss::mean_divisor(const Tensor& target) const {
  if (!weighs_targets()) return {};
  if (!is_floating(target.dtype())) return sum_of_weights(target, weight, options_.ignore_index);
  const std::int64_t classes = target.size(target.dim() > 1 ? 1 : 0);
  return full({}, static_cast<double>(target.numel() / std::max<std::int64_t>(classes, 1)),
              {.dtype = DType::f64, .device = target.device()});
}

}  // namespace mezzo::nn
