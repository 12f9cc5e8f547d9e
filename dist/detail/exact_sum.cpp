// Sums in two grids. With T = 1.5 * 2^k, (x + T) - T is x rounded to a multiple of 2^(k - 52); n such
// multiples, each at most M, have an exact sum in f64 if n M < 2^k. What is left of x is below 2^(k - 53) and
// goes to a second, finer grid.
#include "mezzo/dist/detail/exact_sum.h"

#include <cmath>
#include <limits>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/dist/collectives.h"
#include "mezzo/ops/ops.h"

namespace mezzo::dist {

namespace {

/// |x|^order in f64. Squares of f32 numbers are exact.
Tensor powers(const Tensor& tensor, double order) {
  Tensor wide = tensor.to(DType::f64).abs();
  if (order == 1 || std::isinf(order)) return wide;
  return order == 2 ? mul(wide, wide) : pow(wide, order);
}

/// 1.5 * 2^k for the least k with bound <= 2^k.
Tensor grid(const Tensor& bound) { return mul(pow(Scalar(2.0), ceil(log2(bound))), 1.5); }

}  // namespace

Tensor total_norm(std::span<const Tensor> tensors, double order, const Group& group, Device device) {
  const NoGrad no_grad;
  const TensorOptions f64{.dtype = DType::f64, .device = device};
  Tensor largest = zeros({}, f64);
  double count = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    largest = maximum(largest, powers(tensor, order).max());
    count += static_cast<double>(tensor.numel());
  }
  // NaN travels as infinity: the maximum of a transport need not keep it.
  const Tensor is_nan = ne(largest, largest);
  Tensor bounds =
      stack({where(is_nan, std::numeric_limits<double>::infinity(), largest), is_nan.to(DType::f64)});
  all_reduce(bounds, ReduceOp::max, {.group = group});
  const Tensor counts = full({}, count, f64);
  all_reduce(counts, ReduceOp::sum, {.group = group});
  const Tensor bound = bounds.select(0, 0);
  const Tensor nan = where(eq(bounds.select(0, 1), 0.0), 0.0, std::numeric_limits<double>::quiet_NaN());
  if (std::isinf(order)) return add(bound, nan);
  // Twice the count, and powers of two: no rounding of these can make a grid too coarse to be exact.
  const Tensor room = mul(counts, 2.0);
  const Tensor coarse = grid(mul(bound, room));
  const Tensor fine = grid(mul(mul(coarse, std::ldexp(1.0, -52)), room));
  Tensor sums = zeros({2}, f64);
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const Tensor x = powers(tensor, order);
    const Tensor high = sub(add(x, coarse), coarse);
    const Tensor rest = sub(x, high);
    const Tensor low = sub(add(rest, fine), fine);
    sums = add(sums, stack({sum(high), sum(low)}));
  }
  all_reduce(sums, ReduceOp::sum, {.group = group});
  const Tensor total = add(sums.select(0, 0), sums.select(0, 1));
  const Tensor sound = where(isfinite(bound), total, bound);  // of infinite ones there is no grid
  return add(order == 2 ? sqrt(sound) : pow(sound, 1.0 / order), nan);
}

}  // namespace mezzo::dist
