// No system allocation per op: this program counts every call of operator new (counted_new.h).
#include <gtest/gtest.h>

#include <cstdint>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/allocation/counted_new.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo {
namespace {

/// Calls of operator new, and requests for tensor memory that went to the system, in one warm call of `step`.
template <class F>
std::uint64_t allocations(F step) {
  for (int i = 0; i < 5; ++i) step();
  const std::uint64_t before = test::news();
  const std::int64_t tensors_before = memory_stats(Device::cpu()).system_allocations;
  step();
  return test::news() - before +
         static_cast<std::uint64_t>(memory_stats(Device::cpu()).system_allocations - tensors_before);
}

class Allocation : public testing::Test {
 protected:
  void SetUp() override {
    if (test::under_sanitizer()) GTEST_SKIP() << "under a sanitizer memory goes back at once";
  }
};

TEST_F(Allocation, TheCounterCounts) {
  EXPECT_GE(allocations([] { delete new int(1); }), 1U);
}

TEST_F(Allocation, OpsWithoutRecordingMakeNone) {
  const Tensor x = randn({4, 4}), y = randn({4, 4}), column = randn({4, 1});
  EXPECT_EQ(allocations([&] {
              const NoGrad no_grad;
              const Tensor z = softmax(matmul(tanh(x + y), transpose(y, 0, 1)) * column, -1);
              const Tensor s = sum(z, {0}) + mean(z);
            }),
            0U);
}

TEST_F(Allocation, RecordedOpsAndTheirBackwardMakeNonePerOp) {
  const Tensor w = randn({8}).requires_grad_(true), x = randn({8});
  const auto chain = [&](int length) {
    return allocations([&] {
      Tensor h = w;
      for (int i = 0; i < length; ++i) h = tanh(h * x + w);
      sum(h).backward();
      w.set_grad({});
    });
  };
  EXPECT_EQ(chain(10), chain(2)) << "24 more recorded ops may not ask the system once";
}

TEST_F(Allocation, ATrainingStepMakesNone) {
  nn::Sequential net(nn::make<nn::Linear>(8, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 16),
                     nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 1));
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3, .momentum = 0.9});
  const Tensor input = randn({32, 8}), target = randn({32, 1});
  const std::uint64_t count = allocations([&] {
    mse_loss(net.forward(input), target).backward();
    optimizer.step();
    optimizer.zero_grad();
  });
  EXPECT_EQ(count, 0U);
}

TEST_F(Allocation, AnAutocastStepWithAScalerMakesAFixedFew) {
  nn::Sequential net(nn::make<nn::Linear>(16, 16), nn::make<nn::ReLU>(), nn::make<nn::Linear>(16, 16));
  optim::Adam optimizer(net.parameters());
  amp::GradScaler scaler;
  const Tensor input = randn({16, 16}), target = randn({16, 16});
  const std::uint64_t count = allocations([&] {
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::f16);
      loss = mse_loss(net.forward(input), target);
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  });
  EXPECT_LE(count, 16U) << "the lists of GradScaler, and a place per weight in the region; none per op";
}

// Writing each level's text into that of the level above, as printing once did, takes the text as often as
// there are levels: 30 s for 3,000.
TEST_F(Allocation, PrintingNestedModulesTakesAFewTimesTheirText) {
  std::shared_ptr<nn::Layer> net = nn::make<nn::ReLU>();
  for (int i = 0; i < 500; ++i) {
    auto outer = nn::make<nn::Sequential>();
    outer->push_back(std::move(net));
    net = std::move(outer);
  }
  const std::uint64_t before = test::bytes_asked();
  const std::string text = to_string(*net);
  const std::uint64_t asked = test::bytes_asked() - before;
  EXPECT_GT(text.size(), 2U * 500 * 500) << "two lines a level, indented by two more at each";
  EXPECT_LT(asked, 8 * text.size()) << "a string that doubles, and lists";
}

}  // namespace
}  // namespace mezzo
