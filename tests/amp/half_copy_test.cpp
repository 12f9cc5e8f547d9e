// The 16-bit copies of weights that optimizers keep fresh: the next forward casts nothing, and no copy is
// ever stale.
#include "mezzo/autograd/half_copy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/optim/adam.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();
constexpr std::int64_t kSize = 48;
constexpr std::int64_t kCopyBytes = kSize * kSize * 2;

std::int64_t live_bytes() { return memory_stats(kCpu).current; }

/// One weight in training.
class HalfCopyTest : public ::testing::Test {
 protected:
  HalfCopyTest() { use(std::make_unique<optim::SGD>(std::vector<Tensor>{w}, optim::SGDOptions{.lr = 0.1})); }

  void use(std::unique_ptr<optim::Optimizer> made) { optimizer = std::move(made); }

  void forward_backward(std::optional<DType> region) {
    Tensor loss;
    {
      const Autocast autocast(kCpu, region, {.enabled = region.has_value()});
      loss = mse_loss(linear(x, w), x);
    }
    scaler.scale(loss).backward();
  }
  /// A whole iteration; the step is skipped when `overflow`.
  void iterate(std::optional<DType> region, bool overflow = false) {
    forward_backward(region);
    if (overflow) w.grad().fill_(kInf);
    scaler.step(*optimizer);
    scaler.update();
    optimizer->zero_grad();
  }
  /// Asking for the copy must make no new one, and it must be what a cast gives.
  void expect_fresh(DType dtype) {
    const std::int64_t before = memory_stats(kCpu).allocations;
    const Tensor copy = half_copy(w, dtype);
    EXPECT_EQ(memory_stats(kCpu).allocations, before) << "a cast was made";
    expect_right(copy, dtype);
  }
  void expect_right(const Tensor& copy, DType dtype) {
    EXPECT_EQ(copy.dtype(), dtype);
    EXPECT_EQ(bits(copy), bits(w.detach().to(dtype)));
  }

  Generator generator{3};
  Tensor w = uniform(-1, 1, {kSize, kSize}, {}, generator).detach().requires_grad_();
  Tensor x = uniform(-1, 1, {8, kSize}, {}, generator);
  std::unique_ptr<optim::Optimizer> optimizer;
  GradScaler scaler{{.init_scale = 256}};
};

TEST_F(HalfCopyTest, AStepUnderAutocastLeavesAFreshCopyForTheNextForward) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (int i = 0; i < 3; ++i) {
      iterate(dtype);
      expect_fresh(dtype);
    }
  }
}

TEST_F(HalfCopyTest, TheForwardItselfCastsTheWeightNoMore) {
  iterate(DType::f16);
  const auto allocations_of_forward = [&] {
    const NoGrad no_grad;
    const Autocast region(kCpu, DType::f16);
    const std::int64_t before = memory_stats(kCpu).allocations;
    static_cast<void>(linear(x, w));
    return memory_stats(kCpu).allocations - before;
  };
  const std::int64_t with_copy = allocations_of_forward();
  {
    const NoGrad no_grad;
    w.add_(0.5);  // now the copy is out of date
  }
  EXPECT_EQ(allocations_of_forward(), with_copy + 1) << "exactly the cast of the weight";
}

TEST_F(HalfCopyTest, ARegionsEndDropsNoCopyThatAnOptimizerKeeps) {
  for (int i = 0; i < 3; ++i) {
    iterate(DType::f16);
    forward_backward(DType::f16);
    expect_fresh(DType::f16);
  }
}

TEST_F(HalfCopyTest, AdamKeepsCopiesFreshToo) {
  use(std::make_unique<optim::AdamW>(std::vector<Tensor>{w}, optim::AdamWOptions{.lr = 0.01}));
  for (int i = 0; i < 3; ++i) {
    iterate(DType::bf16);
    expect_fresh(DType::bf16);
  }
}

TEST_F(HalfCopyTest, ASkippedStepKeepsTheCopyValid) {
  for (const bool first : {true, false}) {
    const auto before = bits(w);
    iterate(DType::f16, true);
    EXPECT_EQ(bits(w), before);
    expect_fresh(DType::f16);
    if (first) iterate(DType::f16);
  }
  EXPECT_EQ(scaler.steps_skipped(), 2);
}

TEST_F(HalfCopyTest, BothDtypesAreKeptWhenBothAreUsed) {
  forward_backward(DType::f16);
  forward_backward(DType::bf16);
  scaler.step(*optimizer);
  scaler.update();
  expect_fresh(DType::f16);
  expect_fresh(DType::bf16);
}

TEST_F(HalfCopyTest, WritesByOthersAreSeen) {
  iterate(DType::f16);
  const NoGrad no_grad;
  w.mul_(2.0);
  expect_right(half_copy(w, DType::f16), DType::f16);
  w.mutable_data<float>()[5] = 0.25F;
  expect_right(half_copy(w, DType::f16), DType::f16);
  expect_fresh(DType::f16);
}

TEST_F(HalfCopyTest, IsNeverStaleInAnyOrderOfEvents) {
  Generator choice(11);
  for (int i = 0; i < 200; ++i) {
    switch (randint(0, 6, {}, {}, choice).item<std::int64_t>()) {
      case 0:
        iterate(DType::f16);
        break;
      case 1:
        iterate(DType::bf16);
        break;
      case 2:
        iterate({});
        break;
      case 3:
        iterate(DType::f16, true);
        break;
      case 4: {
        const NoGrad no_grad;
        w.mul_(0.75);
        break;
      }
      default:
        use(std::make_unique<optim::SGD>(std::vector<Tensor>{w}, optim::SGDOptions{.lr = 0.1}));
    }
    const DType dtype = i % 2 == 0 ? DType::f16 : DType::bf16;
    expect_right(half_copy(w, dtype), dtype);
    ASSERT_FALSE(HasFailure()) << "after event " << i;
  }
}

TEST_F(HalfCopyTest, IsDroppedWhenAutocastNoLongerUsesIt) {
  iterate({});
  const std::int64_t without = live_bytes();
  iterate(DType::f16);
  EXPECT_EQ(live_bytes(), without + kCopyBytes);
  iterate({});
  EXPECT_EQ(live_bytes(), without);
  iterate(DType::f16);
  expect_fresh(DType::f16);
}

TEST_F(HalfCopyTest, OneDtypeReplacesTheOther) {
  iterate({});
  const std::int64_t without = live_bytes();
  iterate(DType::f16);
  iterate(DType::bf16);
  EXPECT_EQ(live_bytes(), without + kCopyBytes);
}

TEST_F(HalfCopyTest, GoesWithTheOptimizer) {
  iterate(DType::f16);
  const std::int64_t with = live_bytes();
  const auto weights = bits(w);
  optimizer.reset();
  EXPECT_LE(live_bytes(), with - kCopyBytes);
  {
    const NoGrad no_grad;
    const Autocast region(kCpu, DType::f16);
    static_cast<void>(linear(x, w));
  }
  EXPECT_LE(live_bytes(), with - kCopyBytes) << "a region's own copy goes with the region";
  EXPECT_EQ(bits(w), weights);
}

TEST_F(HalfCopyTest, AGraphThatStillHoldsTheCopyKeepsItsValues) {
  iterate(DType::f16);
  const Tensor input = ones({1, kSize}, {.requires_grad = true});
  Tensor y;
  {
    const Autocast region(kCpu, DType::f16);
    y = sum(linear(input, w));
  }
  const auto column_sums = [&] {
    return sum(w.detach().to(DType::f16).to(DType::f64), {0}).to_vector<double>();
  };
  const std::vector<double> before = column_sums();
  iterate(DType::f16);  // rewrites the weight and its copy
  expect_fresh(DType::f16);
  y.backward();
  const std::vector<double> gradient = input.grad().to_vector<double>(), after = column_sums();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(gradient[i], before[i], kSize * kSize * 0x1p-24) << "a sum of kSize products in f32";
    EXPECT_GT(std::abs(before[i] - after[i]), 3e-4) << "the new weights would be noticed";
  }
}

TEST_F(HalfCopyTest, AParameterWithoutGradientKeepsItsCopy) {
  const Tensor other = ones({2}, {.requires_grad = true});
  use(std::make_unique<optim::SGD>(std::vector<Tensor>{w, other}, optim::SGDOptions{.lr = 0.1}));
  iterate(DType::f16);
  sum(other * 2.0).backward();
  optimizer->step();
  expect_fresh(DType::f16);
}

TEST_F(HalfCopyTest, WithoutARegionNothingIsKept) {
  iterate({});
  const std::int64_t before = live_bytes();
  for (int i = 0; i < 3; ++i) iterate({});
  EXPECT_EQ(live_bytes(), before);
}

TEST_F(HalfCopyTest, OnlyF32LeavesHaveCopies) {
  EXPECT_THROW(static_cast<void>(half_copy(ones({2}, {.dtype = DType::f64}), DType::f16)), DTypeError);
  EXPECT_THROW(static_cast<void>(half_copy(w, DType::f32)), DTypeError);
}

TEST_F(HalfCopyTest, ATransposedWeightIsCopiedRight) {
  const Tensor base = uniform(-1, 1, {4, kSize}, {}, generator);
  const Tensor turned = alias(base, {kSize, 4}, {1, kSize}, 0, false).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{turned}, {.lr = 0.5});
  for (int i = 0; i < 2; ++i) {
    Tensor loss;
    {
      const Autocast region(kCpu, DType::f16);
      loss = sum(square(linear(ones({1, 4}), turned)));
    }
    loss.backward();
    sgd.step();
    sgd.zero_grad();
    EXPECT_EQ(bits(half_copy(turned, DType::f16)), bits(turned.detach().to(DType::f16)));
  }
}

}  // namespace
}  // namespace mezzo::amp
