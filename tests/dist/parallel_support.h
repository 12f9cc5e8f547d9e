// What the tests of data-parallel training share: a model and batches that are the same on all ranks, a
// rank's share of a batch, and comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "dist/rank_threads.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/dist/data_parallel.h"
#include "mezzo/dist/detail/reducer.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"

namespace mezzo::test {

/// Inputs and targets of a global batch.
struct Batch {
  Tensor x, y;
};
inline Batch batch_of(std::uint64_t seed, std::int64_t rows, DType dtype = DType::f32) {
  Generator generator(seed);
  const Tensor x = uniform(-1, 1, {rows, 8}, {}, generator), y = uniform(-1, 1, {rows, 4}, {}, generator);
  return {x.to(dtype), y.to(dtype)};
}
/// Rows of part i of n.
inline Batch part_of(const Batch& batch, std::int64_t i, std::int64_t n) {
  const std::int64_t rows = batch.x.size(0) / n;
  return {batch.x.narrow(0, i * rows, rows), batch.y.narrow(0, i * rows, rows)};
}
inline Batch share_of(const Batch& batch, const dist::Group& group) {
  return part_of(batch, group.rank(), group.size());
}

/// All parameters and floating buffers anew.
inline void fill(nn::Module& net, std::uint64_t seed) {
  const NoGrad no_grad;
  Generator generator(seed);
  for (const Tensor& parameter : net.parameters())
    parameter.copy_(uniform(-0.5, 0.5, parameter.shape(), {}, generator));
}

/// 8 -> 16 -> 12 -> 4 with tanh: no gradient of it is 0.
inline std::shared_ptr<nn::Sequential> make_mlp(std::uint64_t seed, DType dtype = DType::f32) {
  auto net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 16), nn::make<nn::Tanh>(),
                                      nn::make<nn::Linear>(16, 12), nn::make<nn::Tanh>(),
                                      nn::make<nn::Linear>(12, 4));
  fill(*net, seed);
  net->to(dtype);
  return net;
}

/// Two branches, one of which each forward takes, and a part that none takes.
struct Branches final : nn::Layer {
  nn::Child<nn::Linear> left{*this, "left", nn::Linear(8, 4)};
  nn::Child<nn::Linear> right{*this, "right", nn::Linear(8, 4)};
  nn::Child<nn::Linear> never{*this, "never", nn::Linear(8, 4)};
  bool takes_left = true;
  Tensor forward(const Tensor& x) override { return takes_left ? left(x) : right(x); }
};

inline Tensor loss_of(nn::Layer& net, const Batch& batch) { return mean(square(net(batch.x) - batch.y)); }

/// The bytes of a dense tensor: NaN equals itself, 0 differs from -0.
inline std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const Tensor dense = tensor.detach().contiguous();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(dense.numel() * size_of(dense.dtype())));
  std::memcpy(bytes.data(), dense.impl().data(), bytes.size());
  return bytes;
}
inline std::vector<std::vector<std::uint8_t>> bytes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<std::uint8_t>> result;
  for (const Tensor& tensor : tensors) result.push_back(bytes_of(tensor));
  return result;
}

inline std::vector<Tensor> gradients_of(const nn::Module& net) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : net.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}
inline std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors)
    copies.push_back(tensor.defined() ? tensor.detach().clone() : Tensor());
  return copies;
}

/// The largest difference of all elements, relative to the largest element.
inline double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].defined(), b[i].defined()) << i;
    if (!a[i].defined() || !b[i].defined()) continue;
    const auto x = a[i].detach().to_vector<double>(), y = b[i].detach().to_vector<double>();
    EXPECT_EQ(x.size(), y.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      largest = std::max(largest, std::abs(y[j]));
      apart = std::max(apart, std::abs(x[j] - y[j]));
      if (std::isnan(x[j]) != std::isnan(y[j])) return std::nan("");
    }
  }
  return apart / largest;
}

/// Gradients of one process without a DataParallel.
inline std::vector<Tensor> gradients_alone(std::uint64_t net_seed, const Batch& batch) {
  const auto net = make_mlp(net_seed);
  loss_of(*net, batch).backward();
  return gradients_of(*net);
}

/// What a call throws, or "nothing".
template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace mezzo::test
