// What the tests of pointwise ops share: tensors from lists, strided ones, messages of errors, and first and
// second derivatives against central differences in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::test {

/// A contiguous tensor of T's dtype.
template <class T>
Tensor make(const Shape& shape, const std::vector<T>& values) {
  Tensor out = empty(shape, {.dtype = dtype_of<T>});
  auto memory = out.mutable_data<T>();
  EXPECT_EQ(memory.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) memory[i] = values[i];
  return out;
}
template <class T>
Tensor make(const std::vector<T>& values) {
  return make<T>({static_cast<std::int64_t>(values.size())}, values);
}
/// 0, 1, 2, ... in row-major order.
inline Tensor counted(const Shape& shape, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<std::size_t>(layout::numel(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return make<double>(shape, values).to(dtype);
}
inline Tensor bools(const Shape& shape, const std::vector<int>& values) {
  Tensor out = empty(shape, {.dtype = DType::boolean});
  auto memory = out.mutable_data<bool>();
  for (std::size_t i = 0; i < values.size(); ++i) memory[i] = values[i] != 0;
  return out;
}
inline Tensor leaf(const Shape& shape, const std::vector<double>& values) {
  return make<double>(shape, values).requires_grad_();
}
inline Tensor leaf(const std::vector<double>& values) {
  return leaf({static_cast<std::int64_t>(values.size())}, values);
}
template <class T>
Tensor number(T value) {
  return make<T>(Shape{}, {value});
}

/// The same values with the dims of memory reversed and gaps between elements.
inline Tensor strided_copy(const Tensor& x) {
  const Shape& shape = x.shape();
  Shape reversed;
  for (std::size_t d = shape.size(); d-- > 0;) reversed.push_back(shape[d]);
  Shape doubled = reversed;
  if (doubled.size() > 0) doubled[doubled.size() - 1] *= 2;
  const Tensor memory = zeros(doubled, options_of(x));
  const Dims whole = layout::contiguous_strides(doubled);
  Dims strides;
  for (std::size_t d = shape.size(); d-- > 0;) strides.push_back(whole[d] * (d + 1 == shape.size() ? 2 : 1));
  Tensor view = alias(memory, shape, strides, 0, false);
  view.copy_(x);
  return view;
}

inline std::vector<double> list(const Tensor& x) { return x.to_vector<double>(); }

/// Numbers in [low, high] that look random but are the same everywhere.
inline std::vector<double> spread(std::size_t count, double low, double high, double phase = 0) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double t = std::sin(12.9898 * (static_cast<double>(i) + 1) + phase) * 43758.5453;
    values.push_back(low + (high - low) * (t - std::floor(t)));
  }
  return values;
}

using Function = std::function<Tensor(const Tensors&)>;

inline double dot(const Tensor& a, const std::vector<double>& b) {
  const std::vector<double> values = list(a);
  EXPECT_EQ(values.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += values[i] * b[i];
  return sum;
}

/// Compares `analytic` with (f(inputs + h e_j) - f(inputs - h e_j)) / 2h for every element j of input i.
inline void expect_differences(const std::function<double(const Tensors&)>& f, const Tensors& inputs,
                               const Tensors& analytic, double tolerance, const std::string& what) {
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!analytic[i].defined()) continue;
    const std::vector<double> values = list(inputs[i]), got = list(analytic[i]);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const auto at = [&](double value) {
        Tensors moved = inputs;
        std::vector<double> changed = values;
        changed[j] = value;
        moved[i] = leaf(inputs[i].shape(), changed);
        return f(moved);
      };
      const double want = (at(values[j] + kStep) - at(values[j] - kStep)) / (2 * kStep);
      EXPECT_NEAR(got[j], want, tolerance * (1 + std::abs(want)))
          << what << " of input " << i << " element " << j << " at " << values[j];
    }
  }
}

/// First derivatives of sum(f * w) and second ones of sum_i sum(gradient_i * v_i) in f64. Inputs are leaves.
inline void expect_derivatives(const std::string& name, const Function& f, const Tensors& inputs,
                               bool second = true) {
  const Tensor out = f(inputs);
  const std::vector<double> weights = spread(static_cast<std::size_t>(out.numel()), -1, 1, 0.3);
  const Tensor w = make<double>(out.shape(), weights);
  const auto gradients = [&](const Tensors& at) {
    const Tensor y = f(at);
    return grad({&y, 1}, at, {&w, 1}, {.create_graph = true, .allow_unused = true});
  };
  expect_differences([&](const Tensors& at) { return dot(f(at), weights); }, inputs, gradients(inputs), 1e-7,
                     name + ": gradient");
  if (!second) return;
  Tensors directions;
  for (const Tensor& input : inputs) {
    directions.push_back(make<double>(input.shape(), spread(static_cast<std::size_t>(input.numel()), -1, 1,
                                                            1.7 * directions.size() + 0.9)));
  }
  const auto value = [&](const Tensors& at) {
    const Tensors g = gradients(at);
    double sum = 0;
    for (std::size_t i = 0; i < g.size(); ++i) sum += g[i].defined() ? dot(g[i], list(directions[i])) : 0;
    return sum;
  };
  const Tensors first = gradients(inputs);
  Tensors differentiable, along;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!first[i].defined() || !first[i].requires_grad()) continue;
    differentiable.push_back(first[i]);
    along.push_back(directions[i]);
  }
  ASSERT_FALSE(differentiable.empty()) << name << ": the gradient has no history";
  expect_differences(value, inputs, grad(differentiable, inputs, along, {.allow_unused = true}), 1e-6,
                     name + ": second derivative");
}

}  // namespace mezzo::test
