// Every instruction set of this machine gives the bits of the baseline, on sizes that fill vectors and leave
// a rest. The sweep compares every op on its samples, which are small; here are the kernels behind them and
// those that are no ops: optimizers, random numbers, the scaler. Loops, casts, reductions and products have
// tests of their own beside this one.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

using kernels::cpu::Isa;
using kernels::cpu::IsaGuard;

Tensor noise(const Shape& shape, DType dtype, std::uint64_t seed) {
  const IsaGuard base(Isa::base);
  Generator generator(seed);
  return randn(shape, {.dtype = dtype}, generator);
}

std::vector<std::byte> bytes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::byte> all;
  for (const Tensor& x : tensors) {
    const auto* const first = static_cast<const std::byte*>(x.impl().storage->data());
    all.insert(all.end(), first, first + x.impl().storage->bytes());
  }
  return all;
}

/// `compute` makes new tensors; their memory is compared.
void expect_same_bits(const std::function<std::vector<Tensor>()>& compute) {
  const auto run_on = [&](Isa isa) {
    const IsaGuard guard(isa);
    return bytes_of(compute());
  };
  const std::vector<std::byte> baseline = run_on(Isa::base);
  ASSERT_FALSE(baseline.empty());
  for (const Isa isa : {Isa::v3, Isa::v4}) {
    if (isa > kernels::cpu::best_isa()) continue;
    EXPECT_EQ(run_on(isa), baseline) << "x86-64-v" << (isa == Isa::v3 ? 3 : 4);
  }
}

TEST(InstructionSets, AgreeOnRandomNumbers) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    expect_same_bits([&] {
      Generator generator(17);
      return std::vector<Tensor>{randn({2051}, {.dtype = dtype}, generator),
                                 uniform(-3, 7, {2051}, {.dtype = dtype}, generator),
                                 randint(-50, 50, {2051}, {.dtype = dtype}, generator)};
    });
  }
  expect_same_bits([] {
    Generator generator(18);
    return std::vector<Tensor>{randperm(1031, {}, generator), arange(0.0, 103.1, 0.1),
                               arange(0, 1031, 1, {.dtype = DType::i32})};
  });
}

/// Every bit pattern of a 16-bit type, subnormals and NaNs too, and three more for a rest.
template <class H>
Tensor every_pattern() {
  std::vector<H> values;
  for (std::uint32_t bits = 0; bits < 0x10003; ++bits) {
    values.push_back(H::from_bits(static_cast<std::uint16_t>(bits)));
  }
  return tensor(values);
}

// These run in registers and by the processor's rounding where it has one; the baseline goes through buffers.
TEST(InstructionSets, AgreeOnEverySixteenBitPattern) {
  for (const Tensor& x : {every_pattern<Half>(), every_pattern<BFloat16>()}) {
    SCOPED_TRACE(to_string(x.dtype()));
    const Tensor other = noise(x.shape(), x.dtype(), 6);
    const Tensor one_more = slice(x, 0, 1);
    expect_same_bits([&] {
      return std::vector<Tensor>{relu(x),       exp(x),        tanh(x),       sigmoid(x),     gelu(x),
                                 add(x, other), mul(x, other), mul(other, x), relu(one_more), tanh(one_more)};
    });
  }
}

TEST(InstructionSets, AgreeOnSoftmaxAndCrossEntropy) {
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    const Tensor x = noise({13, 1031}, dtype, 1), g = noise({13, 1031}, dtype, 2);
    const Tensor classes = to(arange(0, 13 * 79, 79), DType::i64);
    expect_same_bits([&] {
      const Tensor y = softmax(x, 1), log_y = log_softmax(x, 1), along = softmax(x, 0);
      return std::vector<Tensor>{y,
                                 log_y,
                                 along,
                                 softmax_backward(g, y, 1),
                                 log_softmax_backward(g, log_y, 1),
                                 cross_entropy(x, classes, {.reduction = Reduction::none})};
    });
    expect_same_bits([&] {
      const Tensor leaf = clone(x).requires_grad_();
      return std::vector<Tensor>{grad(cross_entropy(leaf, classes, {.label_smoothing = 0.1}), {leaf})[0]};
    });
  }
}

TEST(InstructionSets, AgreeOnReductionsAndStatistics) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = noise({37, 1031}, dtype, 3);
    for (const std::int64_t dim : {0, 1}) {
      expect_same_bits([&] {
        return std::vector<Tensor>{sum(x, {dim}),     mean(x, {dim}), var(x, {dim}),  norm(x, 3, {dim}),
                                   norm(x, 2, {dim}), amax(x, {dim}), argmin(x, dim), any(x, {dim})};
      });
    }
  }
}

TEST(InstructionSets, AgreeOnOptimizers) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const bool masters = is_16bit(dtype);
    const Tensor start = noise({1031}, dtype, 4), gradient = noise({1031}, dtype, 5);
    const auto steps_of = [&](const std::function<void(const Tensor&)>& step) {
      expect_same_bits([&] {
        const Tensor parameter = clone(start).requires_grad_();
        parameter.set_grad(clone(gradient));
        step(parameter);
        return std::vector<Tensor>{parameter.detach()};
      });
    };
    steps_of([&](const Tensor& p) {
      optim::SGD optimizer(
          {p},
          {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true, .master_weights = masters});
      for (int i = 0; i < 3; ++i) optimizer.step();
    });
    steps_of([&](const Tensor& p) {
      optim::AdamW optimizer({p}, {.lr = 0.1, .amsgrad = true, .master_weights = masters});
      for (int i = 0; i < 3; ++i) optimizer.step();
    });
    steps_of([&](const Tensor& p) {
      optim::clip_grad_norm_(std::vector<Tensor>{p}, 0.5);
      optim::SGD({p}, {.lr = 1}).step();
    });
  }
}

TEST(InstructionSets, AgreeOnTheScaler) {
  const Tensor start = noise({1031}, DType::f32, 6), gradient = noise({1031}, DType::f32, 7);
  expect_same_bits([&] {
    const Tensor parameter = clone(start).requires_grad_();
    optim::SGD optimizer({parameter}, {.lr = 0.1});
    amp::GradScaler scaler;
    scaler.scale(sum(parameter * gradient)).backward();
    scaler.unscale_(optimizer);
    const Tensor unscaled = clone(parameter.grad());
    scaler.step(optimizer);
    scaler.update();
    return std::vector<Tensor>{parameter.detach(), unscaled};
  });
}

}  // namespace
}  // namespace mezzo
