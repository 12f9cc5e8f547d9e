// Autocast regions: dtypes by category, nesting, threads, the 16-bit copies of weights, and user-defined ops.
// Letters and numbers name the statements of PyTorch's behaviour that a test pins.
#include "mezzo/amp/autocast.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {
namespace {

const Device kCpu = Device::cpu();

class AutocastTest : public ::testing::Test {
 protected:
  Tensor a = randn({4, 4}), b = randn({4, 4});
  Tensor w = randn({4, 4}).requires_grad_();
};

TEST_F(AutocastTest, MatrixProductsRunInTheRegionsDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Autocast region(kCpu, dtype);
    EXPECT_EQ(matmul(a, b).dtype(), dtype);
    EXPECT_EQ(linear(a, w).dtype(), dtype);
  }
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
}

TEST_F(AutocastTest, AnF32RegionCastsHalfWeightsUp) {
  const Autocast region(kCpu, DType::f32);
  EXPECT_EQ(matmul(a.to(DType::f16), b.to(DType::bf16)).dtype(), DType::f32);
}

TEST_F(AutocastTest, TheOther16BitDtypeIsCastToo) {
  const Autocast region(kCpu, DType::f16);
  EXPECT_EQ(matmul(a.to(DType::bf16), b.to(DType::bf16)).dtype(), DType::f16);
}

TEST_F(AutocastTest, F32OpsReturnF32AndUnlistedOnesFollowTheirInputs) {
  const Autocast region(kCpu, DType::f16);
  const Tensor h = matmul(a, b);
  EXPECT_EQ(exp(h).dtype(), DType::f32);
  EXPECT_EQ(sum(h).dtype(), DType::f32);
  EXPECT_EQ(softmax(h, -1).dtype(), DType::f32);
  EXPECT_EQ(mse_loss(h, b).dtype(), DType::f32);
  EXPECT_EQ(relu(h).dtype(), DType::f16);
  EXPECT_EQ((h + h).dtype(), DType::f16);
  EXPECT_EQ((h + a).dtype(), DType::f32);
}

TEST_F(AutocastTest, AnExplicitDtypeIsRespected) {
  const Autocast region(kCpu, DType::f16);
  const Tensor h = matmul(a, b);
  EXPECT_EQ(sum(h, {}, false, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(softmax(h, -1, DType::f64).dtype(), DType::f64);
}

TEST_F(AutocastTest, F64IntegersAndBoolsAreNeverCast) {  // A-21, V-14
  const Autocast region(kCpu, DType::f16);
  const Tensor d = a.to(DType::f64), n = ones({4, 4}, {.dtype = DType::i64});
  EXPECT_EQ(matmul(d, d).dtype(), DType::f64);
  EXPECT_EQ(matmul(n, n).dtype(), DType::i64);
  EXPECT_EQ(exp(d).dtype(), DType::f64);
  EXPECT_EQ(sum(n).dtype(), DType::i64);
  EXPECT_THROW(static_cast<void>(matmul(d, a)), DTypeError);
  EXPECT_EQ(mse_loss(a.to(DType::f16), d).dtype(), DType::f64);
}

TEST_F(AutocastTest, PromoteTakesTheWidestInput) {
  const Autocast region(kCpu, DType::f16);
  const Tensor h = randn({4}).to(DType::f16), l = randn({4}).to(DType::bf16), f = randn({4});
  EXPECT_EQ(dot(h, h).dtype(), DType::f16);
  EXPECT_EQ(dot(h, f).dtype(), DType::f32);
  EXPECT_EQ(dot(h, l).dtype(), DType::f32);
}

TEST_F(AutocastTest, BannedOpsNameTheirReplacementAndWorkInADisabledRegion) {
  const Tensor p = sigmoid(a), t = sigmoid(b);
  const Autocast region(kCpu, DType::f16);
  try {
    static_cast<void>(binary_cross_entropy(p, t));
    FAIL() << "expected a StateError";
  } catch (const StateError& error) {
    EXPECT_NE(std::string(error.what()).find("binary_cross_entropy_with_logits"), std::string::npos)
        << error.what();
  }
  const Autocast off(kCpu, {}, {.enabled = false});
  const Tensor loss = binary_cross_entropy(p, t);
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_NEAR(loss.item(), mean(neg(t * log(p) + (1.0 - t) * log(1.0 - p))).item(), 1e-6);
}

TEST_F(AutocastTest, RegionsNestAndTheInnerOneCounts) {
  const Autocast outer(kCpu, DType::f16);
  {
    const Autocast off(kCpu, {}, {.enabled = false});
    EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
    const Autocast inner(kCpu, DType::bf16);
    EXPECT_EQ(matmul(a, b).dtype(), DType::bf16);
    const Autocast without_dtype(kCpu);
    EXPECT_EQ(matmul(a, b).dtype(), DType::bf16) << "the surrounding region's dtype";
  }
  EXPECT_EQ(matmul(a, b).dtype(), DType::f16);
}

TEST_F(AutocastTest, AnExceptionRestoresTheState) {
  try {
    const Autocast region(kCpu, DType::f16);
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
}

TEST_F(AutocastTest, StateBelongsToTheThread) {
  const Autocast region(kCpu, DType::f16, {.cache_enabled = false});
  DType seen = DType::f16;
  bool enabled = true, cache = false;
  std::thread([&] {
    enabled = is_autocast_enabled(DeviceType::cpu);
    cache = is_autocast_cache_enabled();
    seen = matmul(a, b).dtype();
  }).join();
  EXPECT_FALSE(enabled);
  EXPECT_TRUE(cache);
  EXPECT_EQ(seen, DType::f32);
  EXPECT_FALSE(is_autocast_cache_enabled());
}

TEST_F(AutocastTest, DefaultsAndRefusals) {
  {
    const Autocast region(kCpu);
    EXPECT_EQ(autocast_dtype(DeviceType::cpu), DType::bf16);
    EXPECT_EQ(autocast_dtype(DeviceType::cuda), DType::f16);
    EXPECT_FALSE(is_autocast_enabled(DeviceType::cuda));
  }
  EXPECT_THROW(Autocast(kCpu, DType::i64), ValueError);
  EXPECT_THROW(Autocast(kCpu, DType::f64), ValueError);
  const Autocast off(kCpu, DType::f64, {.enabled = false});
  EXPECT_FALSE(is_autocast_enabled(DeviceType::cpu));
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
}

TEST_F(AutocastTest, ADeviceThatIsNotThereIsAnError) {
  if (Device::best().is_cuda()) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_THROW(Autocast(Device::cuda(0), DType::f16), DeviceError);
}

TEST_F(AutocastTest, GradientsReturnInTheDtypeOfTheTensorTheyBelongTo) {  // B-11
  Tensor loss, h;
  {
    const Autocast region(kCpu, DType::f16);
    h = linear(a, w);
    loss = mse_loss(h, b);
  }
  DType at_h = DType::f64;
  h.register_hook([&](const Tensor& g) {
    at_h = g.dtype();
    return Tensor();
  });
  loss.backward();
  EXPECT_EQ(h.dtype(), DType::f16);
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_EQ(at_h, DType::f16);
  EXPECT_EQ(w.grad().dtype(), DType::f32);
}

TEST_F(AutocastTest, WeightGradientsAreNotRoundedTo16Bits) {
  // 1 + 2^-11 is a sum that f16 cannot hold: the gradient of the f32 weight must come out of the product in
  // f32.
  const Tensor weight = ones({1, 1}).requires_grad_();
  const Tensor x = tensor({1.0, 0x1p-11}, {2, 1});
  Tensor y;
  {
    const Autocast region(kCpu, DType::f16);
    y = linear(x, weight);
  }
  sum(y.to(DType::f32)).backward();
  EXPECT_EQ(weight.grad().item(), 1 + 0x1p-11);
}

TEST_F(AutocastTest, AWeightIsCastOncePerRegionAndAgainAfterItChanged) {
  const Autocast region(kCpu, DType::f16);
  static_cast<void>(linear(a, w));
  const std::int64_t bytes = memory_stats(kCpu).current;
  for (int i = 0; i < 3; ++i) static_cast<void>(linear(a, w));
  EXPECT_EQ(memory_stats(kCpu).current, bytes) << "no copy per use";
  const NoGrad no_grad;
  w.fill_(2.0);
  EXPECT_EQ(sum(linear(ones({1, 4}), w)).item(), 2.0 * 16) << "an optimizer step inside the region is seen";
}

TEST_F(AutocastTest, TheCopyGoesWithTheOutermostRegion) {
  const std::int64_t before = memory_stats(kCpu).current;
  {
    const NoGrad no_grad;
    const Autocast outer(kCpu, DType::f16);
    {
      const Autocast inner(kCpu, DType::f16);
      static_cast<void>(linear(a, w));
    }
    EXPECT_GT(memory_stats(kCpu).current, before) << "an inner region keeps it";
  }
  EXPECT_EQ(memory_stats(kCpu).current, before);
}

TEST_F(AutocastTest, NestedDtypesEachHaveTheirCopy) {
  const Autocast half(kCpu, DType::f16);
  EXPECT_EQ(linear(a, w).dtype(), DType::f16);
  {
    const Autocast brain(kCpu, DType::bf16);
    EXPECT_EQ(linear(a, w).dtype(), DType::bf16);
  }
  EXPECT_EQ(linear(a, w).dtype(), DType::f16);
}

TEST_F(AutocastTest, ACopyMadeUnderNoGradDoesNotCutLaterHistory) {
  const Autocast region(kCpu, DType::f16);
  for (int i = 0; i < 4; ++i) {
    {
      const NoGrad no_grad;
      EXPECT_FALSE(linear(a, w).requires_grad());
    }
    w.set_grad({});
    sum(linear(a, w)).backward();
    ASSERT_TRUE(w.grad().defined()) << "round " << i;
  }
}

TEST_F(AutocastTest, GradientsOfSeveralUsesAddUpInF32) {
  // 2048 + 1 is not representable in f16: a sum of the two uses in 16 bits would lose the 1.
  const Tensor weight = ones({1, 1}).requires_grad_();
  Tensor first, second;
  {
    const Autocast region(kCpu, DType::f16);
    first = linear(full({1, 1}, 2048.0), weight);
    second = linear(ones({1, 1}), weight);
  }
  (sum(first.to(DType::f32)) + sum(second.to(DType::f32))).backward();
  EXPECT_EQ(weight.grad().item(), 2049);
}

TEST_F(AutocastTest, TheCacheDoesNotChangeResults) {
  const auto run = [&](bool cache) {
    w.set_grad({});
    const Autocast region(kCpu, DType::bf16, {.cache_enabled = cache});
    const Tensor y = linear(linear(a, w), w);
    sum(y).backward();
    return std::pair(y.to_vector<float>(), w.grad().to_vector<float>());
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(AutocastTest, BackwardMayRunInsideARegion) {
  const auto gradient = [&](bool inside) {
    w.set_grad({});
    const Autocast region(kCpu, DType::f16);
    const Tensor loss = mse_loss(linear(a, w), b);
    if (inside) {
      loss.backward();
    } else {
      const Autocast off(kCpu, {}, {.enabled = false});
      loss.backward();
    }
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

}  // namespace
}  // namespace mezzo::amp
