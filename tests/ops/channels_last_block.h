// A residual block as it stands in a ResNet, and what watches the strides of everything that goes through it,
// for the tests on the CPU and on the CUDA device.
#pragma once

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/node.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/ops.h"

namespace mezzo::test {

/// A number of samples that no other dim of the block has: a tensor [kSamples, C, H, W] is an activation or
/// the gradient of one.
inline constexpr std::int64_t kSamples = 3;

/// While it lives, activations that go into ops, and gradients of activations, are checked to be
/// channels-last, and counted.
class FormatWatch final : public BackwardObserver {
 public:
  FormatWatch() : guard_(InputHookState{see_inputs, 0}) { forward = backward = 0; }
  void after_vjp(const autograd::Node& node, std::span<const Tensor> gradients) override {
    for (const Tensor& gradient : gradients) see(node.info, gradient, backward, "gradient");
  }
  static inline thread_local int forward = 0, backward = 0;

 private:
  static void see_inputs(HookedCall& call) {
    for (const TensorRef& input : call.inputs) see(call.info, input.get(), forward, "input");
  }
  static void see(const OpInfo& op, const Tensor& x, int& count, const char* what) {
    if (!x.defined() || x.dim() != 4 || x.shape()[0] != kSamples) return;
    // One number repeated, as the gradient of a mean is, lies in no format and is no copy.
    if (x.strides()[2] == 0 && x.strides()[3] == 0) return;
    ++count;
    EXPECT_EQ(x.suggest_memory_format(), MemoryFormat::channels_last)
        << what << " of " << op.name.value << " " << to_string(x.shape()) << " has strides "
        << to_string(x.strides());
  }
  InputHookGuard guard_;
};

/// Weights of the block, small enough that activations keep their size.
struct Block {
  Block(Device device, DType dtype) {
    Generator generator(5);
    const auto make = [&](const Shape& shape) {
      const Tensor value = uniform(-0.5, 0.5, shape, {.dtype = DType::f64}, generator);
      const Tensor leaf = value.to(dtype).to(device).detach();
      leaf.requires_grad_();
      parameters.push_back(leaf);
      return leaf;
    };
    narrow = make({4, 8, 3, 3});
    wide = make({8, 4, 1, 1});
    batch_weight = make({4});
    batch_bias = make({4});
    group_weight = make({8});
    group_bias = make({8});
  }
  /// conv, batch_norm, relu, conv, group_norm, add, mean
  [[nodiscard]] Tensor operator()(const Tensor& x) const {
    Tensor y = conv2d(x, narrow, {}, {.padding = 1});
    y = relu(batch_norm(y, {}, {}, batch_weight, batch_bias, true));
    y = conv2d(y, wide);
    y = group_norm(y, 2, group_weight, group_bias) + x;
    return mean(y * y, {2, 3});
  }
  Tensor narrow, wide, batch_weight, batch_bias, group_weight, group_bias;
  Tensors parameters;
};

/// Runs the block forward and backward, and expects that nothing but the input is converted, and the values
/// of the row-major run.
inline void expect_no_conversion(Device device, DType dtype, double tolerance) {
  Generator generator(6);
  const Shape shape{kSamples, 8, 5, 7};
  const Tensor values = uniform(-1, 1, shape, {.dtype = DType::f64}, generator).to(dtype).to(device);
  const Block block(device, dtype);
  const auto gradients_of = [&](const Tensor& input) {
    const Tensor x = input.detach();
    x.requires_grad_();
    Tensors leaves{x};
    for (const Tensor& parameter : block.parameters) leaves.push_back(parameter);
    const Tensor loss = sum(block(x) * 3.0);
    return grad({&loss, 1}, leaves);
  };
  const Tensors want = gradients_of(values);
  const Tensor converted = values.to(MemoryFormat::channels_last);
  const FormatWatch watch;
  const Tensors got = gradients_of(converted);
  EXPECT_GE(FormatWatch::forward, 8);
  EXPECT_GE(FormatWatch::backward, 7);
  EXPECT_TRUE(got[0].is_contiguous(MemoryFormat::channels_last));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], tolerance) << "gradient " << i;
  }
}

/// Bytes that f holds at most beyond what was held before, including its result.
template <class F>
std::int64_t peak_of(Device device, const F& f) {
  const std::int64_t before = memory_stats(device).current;
  reset_peak_memory_stats(device);
  (void)f();
  return memory_stats(device).peak - before;
}

/// Expects that normalizations and what stands between them hold their result, and less than another copy of
/// it: a conversion inside of an op would be one.
inline void expect_no_hidden_copies(Device device) {
  const Tensor x = ones({8, 64, 24, 24}, {.device = device, .memory_format = MemoryFormat::channels_last});
  const Tensor w = ones({64}, {.device = device, .requires_grad = true});
  const std::int64_t bytes = x.numel() * 4;
  const auto expect_one = [&](const char* what, const std::function<Tensor()>& f) {
    EXPECT_LT(peak_of(device, f), bytes + bytes / 2) << what;
    EXPECT_TRUE(f().is_contiguous(MemoryFormat::channels_last)) << what;
  };
  using Norm = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Norm>> functions{
      {"batch_norm", [&](const Tensor& in) { return batch_norm(in, {}, {}, w, w, true); }},
      {"instance_norm", [&](const Tensor& in) { return instance_norm(in, {}, {}, w, w); }},
      {"group_norm", [&](const Tensor& in) { return group_norm(in, 4, w, w); }},
      {"softmax", [&](const Tensor& in) { return softmax(in, 1); }},
      {"gelu", [&](const Tensor& in) { return gelu(in); }},
      {"cumsum", [&](const Tensor& in) { return cumsum(in, 1); }}};
  for (const auto& [what, f] : functions) {
    expect_one(what, [&norm = f, &x] { return norm(x.detach()); });
    const Tensor in = x.detach();
    in.requires_grad_();
    const Tensor y = f(in);
    expect_one(what, [&] { return grad({&y, 1}, {&in, 1}, {&x, 1}, {.retain_graph = true})[0]; });
  }
}

}  // namespace mezzo::test
