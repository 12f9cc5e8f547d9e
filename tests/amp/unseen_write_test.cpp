// Memory that changes in ways that count no version: buffers of the program's, spans that it kept, tensors
// that another library has by DLPack. What the scaler decides, what autocast reads and what optimizers keep
// must follow the values.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/io/dlpack.h"
#include "mezzo/nn/recurrent.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

/// A second tensor on the memory of `tensor`, with a version of its own, as another library has it.
Tensor alias_of(const Tensor& tensor) { return io::from_dlpack(io::to_dlpack(tensor.detach())); }

// --- gradients and the scaler

/// A weight of 96 x 96, large enough for every short cut, and f16 rows in a buffer of the program's.
class RefilledBuffer : public ::testing::Test {
 protected:
  using Product = Tensor (*)(const Tensor& x, const Tensor& w);

  /// The scaler's decision about a batch with `value` in it, which the buffer no longer holds when it looks.
  void expect_skipped(double value, double refill, bool skipped, const Tensor& x, std::span<Half> buffer,
                      Product product) {
    const Tensor w = full({96, 96}, 0.01).requires_grad_();
    optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.5});
    GradScaler scaler({.init_scale = 2});
    std::fill(buffer.begin(), buffer.end(), Half(0.5F));
    buffer[17] = Half(static_cast<float>(value));
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = sum(product(x, w), {}, false, DType::f32);
    }
    scaler.scale(loss).backward();
    std::fill(buffer.begin(), buffer.end(), Half(static_cast<float>(refill)));
    EXPECT_EQ(scaler.step(sgd).skipped(), skipped) << value << ", then " << refill;
    if (skipped) {
      EXPECT_EQ(bits(w.detach()), bits(full({96, 96}, 0.01)));
    }
  }
  void expect_decided_by_gradients(const Tensor& x, std::span<Half> buffer) {
    for (const Product product : {+[](const Tensor&a, const Tensor&w) { return linear(a, w); },
                                  +[](const Tensor&a, const Tensor&w) { return matmul(a, w); }}) {
      expect_skipped(kInf, 0.25, true, x, buffer, product);
      expect_skipped(kNan, 0.25, true, x, buffer, product);
      expect_skipped(0.5, kInf, false, x, buffer, product);
    }
  }
};

TEST_F(RefilledBuffer, OfTheProgram) {
  std::vector<Half> buffer(96);
  expect_decided_by_gradients(from_span(std::span(buffer), {1, 96}), buffer);
}

TEST_F(RefilledBuffer, ByAKeptSpan) {
  const Tensor x = zeros({1, 96}, {.dtype = DType::f16});
  expect_decided_by_gradients(x, x.mutable_data<Half>());
}

TEST_F(RefilledBuffer, OfARecurrentLayer) {
  std::vector<Half> buffer(std::size_t{2} * 256);
  nn::GRU gru(256, 256);
  optim::SGD sgd(gru.parameters(), {.lr = 0.5});
  GradScaler scaler({.init_scale = 2});
  for (const bool bad : {true, false}) {
    std::fill(buffer.begin(), buffer.end(), Half(0.5F));
    if (bad) buffer[3] = Half(static_cast<float>(kInf));
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = sum(gru.forward(from_span(std::span(buffer), {2, 1, 256})).output, {}, false, DType::f32);
    }
    sgd.zero_grad();
    scaler.scale(loss).backward();
    std::fill(buffer.begin(), buffer.end(), Half(bad ? 0.25F : static_cast<float>(kInf)));
    EXPECT_EQ(scaler.step(sgd).skipped(), bad);
    scaler.update();
  }
}

TEST(UnseenWrite, OfAGradientIsFound) {
  const Device device = Device::best();
  const Tensor w = full({96, 96}, 0.25, {.device = device}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 1});
  GradScaler scaler({.init_scale = 2});
  Tensor loss;
  {
    const Autocast region(device, DType::f16);
    loss = sum(linear(full({4, 96}, 0.5, {.dtype = DType::f16, .device = device}), w), {}, false, DType::f32);
  }
  scaler.scale(loss).backward();
  select(select(alias_of(w.grad()), 0, 3), 0, 7).fill_(kInf);
  EXPECT_TRUE(scaler.step(sgd).skipped());
}

// --- 16-bit copies of weights

/// One weight of 1, trained by SGD(0.5) on linear(1): each step in a region takes 0.5 away.
struct OneWeight {
  explicit OneWeight(Tensor weight) : w(std::move(weight)) { w.requires_grad_(); }
  Tensor output() const {
    const Autocast region(w.device(), DType::f16);
    return linear(x, w);
  }
  void step() {
    sgd.zero_grad();
    sum(output(), {}, false, DType::f32).backward();
    sgd.step();
  }
  Tensor w;
  Tensor x = ones({1, 1}, {.device = w.device()});
  optim::SGD sgd{std::vector<Tensor>{w}, {.lr = 0.5}};
};

TEST(UnseenWrite, OfALentWeightIsReadInTheNextRegion) {
  std::array<float, 1> memory{1};
  OneWeight one(from_span(std::span<float>(memory), {1, 1}));
  one.step();
  one.step();
  EXPECT_EQ(one.output().item(), 0);
  memory[0] = 5;
  EXPECT_EQ(one.output().item(), 5);
  one.step();
  EXPECT_EQ(memory[0], 4.5F);
  EXPECT_EQ(one.output().item(), 4.5);
}

TEST(UnseenWrite, ByASpanIsReadInTheNextRegion) {
  OneWeight one(ones({1, 1}));
  one.step();
  one.step();  // the optimizer keeps a copy by now
  const std::span<float> span = one.w.mutable_data<float>();
  one.step();
  one.step();
  span[0] = 5;
  EXPECT_EQ(one.output().item(), 5);
}

TEST(UnseenWrite, ByAnotherLibraryIsReadInTheNextRegion) {
  OneWeight one(ones({1, 1}, {.device = Device::best()}));
  one.step();
  one.step();
  const Tensor alias = alias_of(one.w);
  const std::uint32_t version = one.w.version();
  alias.fill_(5);
  ASSERT_EQ(one.w.version(), version);
  EXPECT_EQ(one.output().item(), 5);
  one.step();
  alias.fill_(7);
  EXPECT_EQ(one.output().item(), 7);
}

TEST(UnseenWrite, InsideARegionTheCopyIsTheRegions) {
  std::array<float, 1> memory{1};
  const Tensor w = from_span(std::span<float>(memory), {1, 1}).requires_grad_();
  const Autocast region(kCpu, DType::f16);
  EXPECT_EQ(linear(ones({1, 1}), w).item(), 1);
  memory[0] = 5;
  EXPECT_EQ(linear(ones({1, 1}), w).item(), 1) << "as PyTorch's cache";
}

TEST(UnseenWrite, OfAWeightIsReadByTheNextReplay) {
  const Device device = Device::best();
  for (const bool lent_before : {false, true}) {
    OneWeight one(ones({1, 1}, {.device = device}));
    Tensor alias = lent_before ? alias_of(one.w) : Tensor();
    CapturedStep step(
        device,
        [&] {
          const Tensor output = one.output();
          one.sgd.zero_grad();
          sum(output, {}, false, DType::f32).backward();
          one.sgd.step();
          return output;
        },
        3);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(step().item(), 1 - 0.5 * i);
    if (!lent_before) alias = alias_of(one.w);
    for (const double value : {5.0, 9.0}) {
      alias.fill_(value);
      EXPECT_EQ(step().item(), value);
      EXPECT_EQ(step().item(), value - 0.5);
    }
  }
}

// --- masters

TEST(UnseenWrite, OfA16BitParameterReplacesItsMaster) {
  const Device device = Device::best();
  const Tensor w = ones({3}, {.dtype = DType::bf16, .device = device}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 1, .master_weights = true});
  const auto step = [&] {
    w.set_grad(full({3}, 0.001, {.dtype = DType::bf16, .device = device}));
    sgd.step();
  };
  const Tensor alias = alias_of(w);
  step();
  EXPECT_EQ(w.to_vector<double>(), std::vector<double>(3, 1)) << "the master alone has moved";
  select(alias, 0, 1).fill_(5);
  for (int i = 0; i < 3; ++i) step();
  const double moved = 1 - 4 * static_cast<double>(static_cast<float>(BFloat16(0.001F)));
  const double rounded = static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(moved))));
  EXPECT_EQ(w.to_vector<double>(), (std::vector<double>{rounded, 5, rounded}));
}

}  // namespace
}  // namespace mezzo::amp
