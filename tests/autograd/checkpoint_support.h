// What the tests of checkpoint share: a block of layers, and the run of a stack of them with and without.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

namespace mezzo::test {

/// Bit patterns of the values, as f64, in which each value of the other dtypes has one of its own.
inline std::vector<std::uint64_t> bits(const Tensor& x) {
  std::vector<std::uint64_t> all;
  for (const double value : x.detach().to(DType::f64).to_vector<double>())
    all.push_back(std::bit_cast<std::uint64_t>(value));
  return all;
}

inline void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (!a[i].defined()) continue;
    EXPECT_EQ(a[i].dtype(), b[i].dtype()) << i;
    EXPECT_EQ(a[i].shape(), b[i].shape()) << i;
    EXPECT_EQ(bits(a[i]), bits(b[i])) << "tensor " << i;
  }
}

inline std::vector<Device> devices() {
  std::vector<Device> all{Device::cpu()};
  if (Device::best().is_cuda()) all.push_back(Device::best());
  return all;
}

inline constexpr std::int64_t kRows = 6, kWidth = 16;

/// Norm, two linear maps with a gelu and a dropout, around a shortcut.
struct Block {
  Tensor gain, w1, b1, w2, b2;
  double p = 0.25;

  Block(Device device, Generator& generator) {
    const auto make = [&](const Shape& shape) {
      return (randn(shape, {.device = device}, generator) * 0.3).detach().requires_grad_();
    };
    gain = make({kWidth});
    w1 = make({2 * kWidth, kWidth});
    b1 = make({2 * kWidth});
    w2 = make({kWidth, 2 * kWidth});
    b2 = make({kWidth});
  }
  [[nodiscard]] Tensor operator()(const Tensor& x) const {
    const Tensor h = gelu(linear(layer_norm(x, {kWidth}, gain), w1, b1));
    return x + softmax(linear(dropout(h, p), w2, b2), 1) * tanh(x);
  }
  [[nodiscard]] Tensors parameters() const { return {gain, w1, b1, w2, b2}; }
};

/// A function around a function: checkpoint, or nothing.
using Wrap = std::function<Tensor(const std::function<Tensor(const Tensor&)>&, const Tensor&)>;
inline Tensor plain(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) { return fn(x); }
inline Tensor checkpointed(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x) {
  return autograd::checkpoint(fn, x);
}

struct StackRun {
  Tensors results;  ///< loss, then the gradients of the input and of all parameters
  GeneratorState after_forward, after_backward;
};

/// Forward and backward of three blocks, each inside of `wrap`. Between the two the generator is used.
inline StackRun run_stack(const Wrap& wrap, Device device, std::optional<DType> autocast = {}) {
  manual_seed(5);
  Generator first_values(3);
  const std::vector<Block> blocks{{device, first_values}, {device, first_values}, {device, first_values}};
  const Tensor x = randn({kRows, kWidth}, {.device = device}, first_values).requires_grad_();
  StackRun run;
  Tensor loss;
  {
    std::optional<amp::Autocast> region;
    if (autocast) region.emplace(device, *autocast);
    Tensor h = x;
    for (const Block& block : blocks) h = wrap([&block](const Tensor& in) { return block(in); }, h);
    loss = sum(h.to(DType::f32) * h.to(DType::f32));
  }
  run.after_forward = default_generator().state();
  static_cast<void>(rand({3}, {.device = device}));
  loss.backward();
  run.after_backward = default_generator().state();
  run.results = {loss.detach(), x.grad()};
  for (const Block& block : blocks) {
    for (const Tensor& parameter : block.parameters()) run.results.push_back(parameter.grad());
  }
  return run;
}

}  // namespace mezzo::test
