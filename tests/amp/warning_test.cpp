// What mixed precision warns of, once each, and what it does not warn of.
#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/optim/adam.h"
#include "mezzo/tests/amp/scaler_support.h"
#include "mezzo/tests/support/caught_warnings.h"

namespace mezzo::amp {
namespace {

using test::CaughtWarnings;
using Names = std::vector<std::string>;

const Device kCpu = Device::cpu();

TEST(WarningOfBackward, InsideAnEnabledRegionOnly) {
  const CaughtWarnings caught;
  const Tensor x = ones({2}, {.requires_grad = true});
  const auto step = [&] { sum(exp(x)).backward(); };
  step();
  {
    const Autocast region(kCpu, DType::f16);
    const Autocast disabled(kCpu, {}, {.enabled = false});
    step();
  }
  EXPECT_TRUE(caught.names().empty());
  const Autocast region(kCpu, DType::f16);
  step();
  step();
  EXPECT_EQ(caught.names(), Names{"backward_in_region"});
  EXPECT_NE(caught.texts()[0].find("backward: expected a call outside of the autocast region"),
            std::string::npos);
}

TEST(WarningOfBackward, GradToo) {
  const CaughtWarnings caught;
  const Tensor x = ones({2}, {.requires_grad = true});
  const Autocast region(kCpu, DType::bf16);
  static_cast<void>(grad(sum(exp(x)), {x}));
  EXPECT_EQ(caught.names(), Names{"backward_in_region"});
}

TEST(WarningOfScale, WhereverTheHostLearnsOfOneBelow1) {
  const Names below{"scale_below_1"};
  {
    const CaughtWarnings caught;
    const GradScaler fine({.init_scale = 1});
    EXPECT_TRUE(caught.names().empty());
    const GradScaler scaler({.init_scale = 0.5});
    EXPECT_EQ(caught.names(), below);
    EXPECT_NE(caught.texts()[0].find("got 0.5; "), std::string::npos) << caught.texts()[0];
  }
  {
    GradScaler scaler;
    OneParameter one;
    one.backward(scaler);
    const CaughtWarnings caught;
    scaler.update(0.25);
    EXPECT_EQ(caught.names(), below);
  }
  {
    GradScaler scaler;
    Value state = scaler.state_dict();
    state.set("scale", 0.25);
    const CaughtWarnings caught;
    scaler.load_state_dict(state);
    EXPECT_EQ(caught.names(), below);
  }
}

TEST(WarningOfScale, WhenOverflowsBroughtItThereAndSomebodyReads) {
  for (const bool by_result : {false, true}) {
    GradScaler scaler({.init_scale = 1});
    OneParameter one;
    const CaughtWarnings caught;
    one.backward(scaler, kInf);
    scaler.step(one.optimizer);
    const std::uint64_t reads = host_reads();
    scaler.update();
    EXPECT_EQ(host_reads(), reads) << "nothing is read for the sake of a warning";
    EXPECT_TRUE(caught.names().empty());
    if (by_result) {
      one.backward(scaler);
      EXPECT_FALSE(scaler.step(one.optimizer).skipped());
    } else {
      EXPECT_EQ(scaler.get_scale(), 0.5);
    }
    EXPECT_EQ(caught.names(), Names{"scale_below_1"});
  }
}

TEST(WarningOfMasters, OfSixteenBitParametersWithout) {
  for (const bool enabled : {true, false}) {
    const Tensor p = ones({2}, {.dtype = DType::bf16, .requires_grad = true});
    GradScaler scaler({.enabled = enabled});
    const auto step = [&](optim::Optimizer& optimizer) {
      static_cast<void>(scaler.scale(zeros({})));
      p.set_grad(ones({2}, {.dtype = DType::bf16}));
      scaler.step(optimizer);
      scaler.update();
    };
    const CaughtWarnings caught;
    optim::SGD with(optim::NamedTensors{{"fc.weight", p}}, {.lr = 0.1, .master_weights = true});
    step(with);
    EXPECT_TRUE(caught.names().empty());
    optim::SGD without(optim::NamedTensors{{"fc.weight", p}}, {.lr = 0.1});
    step(without);
    step(without);
    EXPECT_EQ(caught.names(), Names{"parameters_without_masters"});
    EXPECT_NE(caught.texts()[0].find("bf16 of fc.weight"), std::string::npos) << caught.texts()[0];
  }
}

TEST(WarningOfMasters, ByAnyOptimizerAlone) {
  const CaughtWarnings caught;
  const Tensor p = ones({2}, {.dtype = DType::bf16, .requires_grad = true}),
               q = ones({2}, {.requires_grad = true});
  optim::AdamW adam(optim::NamedTensors{{"q", q}, {"p", p}}, {.lr = 1e-4});
  q.set_grad(ones({2}));
  adam.step();
  EXPECT_TRUE(caught.names().empty()) << "p takes no part yet";
  p.set_grad(ones({2}, {.dtype = DType::bf16}));
  adam.step();
  adam.step();
  EXPECT_EQ(caught.names(), Names{"parameters_without_masters"});
  EXPECT_NE(caught.texts()[0].find("Optimizer.step: expected f32 parameters"), std::string::npos);
  EXPECT_NE(caught.texts()[0].find("bf16 of p "), std::string::npos) << caught.texts()[0];
}

TEST(WarningOfSizes, OfLargeProductsInSixteenBitsOnAGpu) {
  if (!cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto product = [](std::int64_t m, std::int64_t k, std::int64_t n, DType dtype, Device device) {
    static_cast<void>(mm(ones({m, k}, {.dtype = dtype, .device = device}),
                         ones({k, n}, {.dtype = dtype, .device = device})));
  };
  const CaughtWarnings caught;
  product(1024, 128, 136, DType::f16, Device::cuda());
  product(1025, 128, 136, DType::f32, Device::cuda());
  product(1025, 128, 136, DType::f16, kCpu);
  product(5, 3, 10, DType::f16, Device::cuda());
  product(1, 4097, 4097, DType::f16, Device::cuda());
  EXPECT_TRUE(caught.names().empty()) << "multiples of 8, other dtypes, the CPU, small ones and vectors";
  product(1025, 128, 136, DType::f16, Device::cuda());
  product(1024, 128, 133, DType::bf16, Device::cuda());
  EXPECT_EQ(caught.names(), Names{"sizes_not_multiples_of_8"});
  EXPECT_NE(caught.texts()[0].find("[1025, 128] times [128, 136]"), std::string::npos) << caught.texts()[0];
}

}  // namespace
}  // namespace mezzo::amp
