// Comparing layers with PyTorch: both sides fill tensors by a formula, and each result and gradient is one
// number, a sum with a weight of its own for each place. The same in Python:
//   import torch; torch.set_default_dtype(torch.float64); from torch import nn
//   def fill(t, k): return t.copy_((0.5 * torch.sin(0.37 * torch.arange(t.numel()) + k)).reshape(t.shape))
//   def made(shape, k): return fill(torch.empty(shape), k).requires_grad_()
//   def digest(t): return (t.flatten() * torch.cos(0.9 * torch.arange(t.numel()))).sum()
//   def model(m):
//     with torch.no_grad(): [fill(p, k) for k, p in enumerate(m.parameters())]
//     return m
//   def digests(m, inputs, outputs):
//     gradients = torch.autograd.grad(sum(digest(o) for o in outputs), [*inputs, *m.parameters()])
//     return [digest(t).item() for t in [*outputs, *gradients]]
#pragma once

#include <cmath>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn::testing {

inline constexpr TensorOptions kF64{.dtype = DType::f64};

inline const Tensor& fill(const Tensor& x, double k) {
  const NoGrad no_grad;
  return x.copy_(reshape(sin(arange(x.numel(), {.dtype = DType::f64}) * 0.37 + k) * 0.5, x.shape()));
}
inline Tensor made(const Shape& shape, double k) {
  const Tensor x = fill(empty(shape, kF64), k);
  x.requires_grad_();
  return x;
}
inline Tensor digest(const Tensor& x) {
  return sum(reshape(x, {-1}) * cos(arange(x.numel(), {.dtype = DType::f64}) * 0.9));
}
inline void fill(const Module& module) {
  double k = 0;
  for (const Tensor& parameter : module.parameters()) fill(parameter, k++);
}

/// Digests of the outputs, and of the gradients of inputs and parameters by the sum of these, against
/// PyTorch's.
inline void expect_digests(const Module& module, std::vector<Tensor> inputs,
                           const std::vector<Tensor>& outputs, const std::vector<double>& wanted) {
  std::vector<double> got;
  Tensor total = zeros({}, kF64);
  for (const Tensor& output : outputs) {
    const Tensor one = digest(output);
    got.push_back(one.item());
    total = total + one;
  }
  for (const Tensor& parameter : module.parameters()) inputs.push_back(parameter);
  for (const Tensor& gradient : grad({&total, 1}, inputs)) got.push_back(digest(gradient).item());
  ASSERT_EQ(got.size(), wanted.size());
  // f64 on both sides: some hundred roundings of numbers below 10.
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << "number " << i;
}

}  // namespace mezzo::nn::testing
