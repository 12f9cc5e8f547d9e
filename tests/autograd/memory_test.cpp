// No cycles, no leaks, few allocations.
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/core/memory/pool.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/sanitizer.h"

namespace mezzo {
namespace {

std::int64_t live_bytes() { return memory_stats(Device::cpu()).current; }

TEST(Memory, AGraphThatIsDroppedWithoutBackwardLeavesNothing) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = sum(softmax(tanh(exp(x)) * sigmoid(x), 0));
    EXPECT_GT(live_bytes(), before);
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(Memory, GradientsWithTheirOwnHistoryFormNoCycle) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor g = grad(sum(exp(x) * x), {x}, {.create_graph = true})[0];
    sum(g * g).backward();
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(Memory, InPlaceWritesWithHistoryFormNoCycle) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = x * 2.0;
    y.mul_(x);
    y.add_(x);
    sum(y).backward();
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(Memory, ATensorThatGoesIntoItselfInPlaceFormsNoCycle) {
  const std::int64_t before = live_bytes();
  {
    const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
    const Tensor y = x * 2.0;
    y.add_(log(y));  // log keeps y, and y belongs to the addition from now on
    const Tensor plain = tensor({3.0, 4.0});
    plain.add_(plain * x);
  }
  EXPECT_EQ(live_bytes(), before);
}

TEST(Memory, SavedTensorsGoDuringBackward) {
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor y = sum(exp(exp(exp(x))));
  const std::int64_t with_graph = live_bytes();
  y.backward();
  EXPECT_LT(live_bytes(), with_graph);
}

/// How many tensors have the memory of x, once f(x) is recorded.
template <class F>
std::int64_t owners_after(const Tensor& x, F f) {
  const Tensor y = f(x);
  EXPECT_TRUE(y.requires_grad());
  return x.impl().storage->use_count();
}

TEST(Memory, AFactorIsSavedForTheGradientsOfTheOthersOnly) {
  const Tensor leaf = ones({4, 4}, {.requires_grad = true}), frozen = ones({4, 4});
  const Tensor images = ones({1, 1, 4, 4}, {.requires_grad = true}), kernel = ones({1, 1, 2, 2});
  const auto expect_kept = [](const char* what, bool kept, const Tensor& of, auto f) {
    const Tensor x = of * 1.0;  // nobody else has its memory
    EXPECT_EQ(owners_after(x, f) > 1, kept) << what;
  };
  expect_kept("linear", false, leaf, [&](const Tensor& x) { return linear(x, frozen); });
  expect_kept("linear, trained", true, leaf, [&](const Tensor& x) { return linear(x, leaf); });
  expect_kept("linear, bias trained", false, leaf,
              [&](const Tensor& x) { return linear(x, frozen, ones({4}, {.requires_grad = true})); });
  expect_kept("a weight of constants", false, leaf, [&](const Tensor& w) { return linear(frozen, w); });
  expect_kept("matmul", false, leaf, [&](const Tensor& x) { return matmul(frozen, x); });
  expect_kept("addmm", false, leaf, [&](const Tensor& x) { return addmm(leaf, x, frozen); });
  expect_kept("conv2d", false, images, [&](const Tensor& x) { return conv2d(x, kernel); });
  expect_kept("conv2d, trained", true, images,
              [&](const Tensor& x) { return conv2d(x, kernel.detach().requires_grad_()); });
  expect_kept("mul", false, leaf, [&](const Tensor& x) { return x * frozen; });
  expect_kept("mul, both", true, leaf, [&](const Tensor& x) { return x * leaf; });
  expect_kept("a square", true, leaf, [&](const Tensor& x) { return x * x; });
  expect_kept("div", false, leaf, [&](const Tensor& x) { return x / frozen; });
  expect_kept("a divisor", true, leaf, [&](const Tensor& x) { return frozen / x; });
}

TEST(Memory, AWarmTrainingStepMakesNoSystemAllocationPerOp) {
  const Tensor w = tensor({0.1, 0.2, 0.3}, {.requires_grad = true});
  const Tensor x = tensor({1.0, 2.0, 3.0});
  const auto step = [&] {
    Tensor h = w;
    for (int i = 0; i < 50; ++i) h = tanh(h * x);
    sum(h).backward();
    w.set_grad({});
  };
  for (int i = 0; i < 3; ++i) step();
  const std::uint64_t pool_before = pool::system_allocations();
  const std::int64_t tensors_before = memory_stats(Device::cpu()).system_allocations;
  step();
  if (test::under_address_sanitizer()) {
    EXPECT_GT(pool::system_allocations(), pool_before) << "there nothing may be kept back";
    return;
  }
  EXPECT_LE(pool::system_allocations() - pool_before, 4U)
      << "150 recorded ops; only containers larger than 4 KiB may ask";
  EXPECT_EQ(memory_stats(Device::cpu()).system_allocations, tensors_before);
}

}  // namespace
}  // namespace mezzo
