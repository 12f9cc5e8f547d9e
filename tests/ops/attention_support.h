// What the tests of attention share: results with gradients, and the same by the plain composition in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "mezzo/autograd/registry.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/ops/loss_support.h"

namespace mezzo::test::attention {

inline constexpr const char* kName = "scaled_dot_product_attention";

/// Result and gradients for an upstream gradient made of numbers.
struct Evaluated {
  Tensor out;
  Tensors gradients;
};
template <class F>
Evaluated evaluate(const F& f, const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_());
  const Tensor out = f(leaves);
  const Tensor g = random(out.shape(), out.dtype(), -1, 1, 0.3);
  return {out.detach(), grad({&out, 1}, leaves, {&g, 1})};
}

/// The same in f64 by the plain composition.
inline Evaluated plainly(const Tensors& inputs, const Tensor& mask, const Value::Map& attrs,
                         const Tensor& seed = {}) {
  Tensors wide;
  for (const Tensor& x : inputs) wide.push_back(to(x, DType::f64));
  const Tensor wide_mask = mask.defined() && is_floating(mask.dtype()) ? to(mask, DType::f64) : mask;
  return evaluate(
      [&](const Tensors& x) {
        return find_op(kName)->call_reference({x[0], x[1], x[2], wide_mask, seed}, Value(attrs))[0];
      },
      wide);
}

/// |got - want| <= tolerance (1 + |want|), none of them NaN.
inline void expect_close(const Tensor& got, const Tensor& want, double tolerance) {
  const Doubles a = list(got), b = list(want);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))
        << i << ": " << a[i] << ", want " << b[i];
}
inline void expect_agrees(const Evaluated& got, const Evaluated& want, double tolerance,
                          const std::string& what) {
  SCOPED_TRACE(what);
  expect_close(got.out, want.out, tolerance);
  for (std::size_t i = 0; i < want.gradients.size(); ++i)
    expect_close(got.gradients[i], want.gradients[i], tolerance);
}

}  // namespace mezzo::test::attention
