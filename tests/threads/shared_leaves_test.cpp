// Threads that share leaves: each runs backwards of its own, while others read or clear gradients, change
// hooks or step an optimizer. Gradients are whole numbers here, so sums are exact in any order; and all
// elements of a tensor are the same, so that one which was written by halves shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/threads/together.h"

namespace mezzo {
namespace {

constexpr int kThreads = 4;
constexpr std::int64_t kLarge = 20000;  // elements; takes long enough for others to come in between

using test::run_together;
using test::times;

void run_on_all(const std::function<void()>& function) {
  run_together(std::vector<std::function<void()>>(kThreads, function));
}
/// Calls f(0), f(1), ... on all threads, which wait for each other every few calls.
void run_in_step(int count, const std::function<void(int)>& f) {
  std::barrier<> together(kThreads);
  run_on_all([&] {
    for (int i = 0; i < count; ++i) {
      if (i % 8 == 0) together.arrive_and_wait();
      f(i);
    }
  });
}

/// Runs `work` on two threads, and `meanwhile` again and again on a third until both are done.
void run_meanwhile(const std::function<void()>& work, const std::function<void()>& meanwhile) {
  std::atomic<int> working = 2;
  const auto counted = [&] {
    try {
      work();
    } catch (...) {
      --working;
      throw;
    }
    --working;
  };
  run_together({counted, counted, [&] {
                  while (working > 0) {
                    meanwhile();
                    std::this_thread::yield();
                  }
                }});
}

Tensor leaf(std::int64_t size = 1) { return ones({size}, {.requires_grad = true}); }
void add_one_to_gradient(const Tensor& x) { sum(x * 1.0).backward(); }

/// The value of all elements, which are the same.
double only_value(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; }))
      << "a tensor was written by halves: " << values.front() << " and others";
  return values[0];
}

TEST(Threads, BackwardsIntoOneLeafAddUp) {
  const Tensor x = leaf();
  const int count = times(50000);
  run_on_all([&] {
    for (int i = 0; i < count; ++i) add_one_to_gradient(x);
  });
  EXPECT_EQ(x.grad().item(), kThreads * count);
}

TEST(Threads, ThoseOfLargeLeavesDo) {
  const Tensor x = leaf(kLarge);
  const int count = times(500);
  run_on_all([&] {
    for (int i = 0; i < count; ++i) add_one_to_gradient(x);
  });
  EXPECT_EQ(only_value(x.grad()), kThreads * count);
}

TEST(Threads, TheFirstBackwardsOfNewLeavesDo) {
  std::vector<Tensor> leaves;
  for (int i = 0; i < times(5000); ++i) leaves.push_back(leaf());
  run_in_step(times(5000), [&](int i) { add_one_to_gradient(leaves[static_cast<std::size_t>(i)]); });
  const auto right = [](const Tensor& x) { return x.grad().item() == kThreads; };
  EXPECT_EQ(std::count_if(leaves.begin(), leaves.end(), right), static_cast<std::ptrdiff_t>(leaves.size()));
}

TEST(Threads, GradientsWithAndWithoutHistoryDo) {
  const Tensor x = leaf();
  const int count = times(500);
  std::atomic<int> number = 0;
  run_on_all([&] {
    const bool create_graph = ++number % 2 == 0;
    for (int i = 0; i < count; ++i) sum(x * x).backward({.create_graph = create_graph});
  });
  EXPECT_EQ(x.grad().item(), 2 * kThreads * count);
  x.set_grad({});
}

TEST(Threads, BackwardsOfOneGraphThatAllRetainDo) {
  const Tensor x = leaf();
  const Tensor loss = sum(tanh(x * 0.0) * exp(x * 0.0) + x);  // d/dx is 1 and reads saved values
  const int count = times(2000);
  run_on_all([&] {
    for (int i = 0; i < count; ++i) loss.backward({.retain_graph = true});
  });
  EXPECT_EQ(x.grad().item(), kThreads * count);
}

TEST(Threads, HooksComeAndGoDuringBackwards) {
  const Tensor x = leaf();
  const Tensor h = x * 1.0;
  x.register_hook([](const Tensor& g) { return g * 2.0; });
  h.register_hook([](const Tensor& g) { return g * 3.0; });
  const int count = times(5000);
  std::atomic<int> calls = 0;
  const auto counting = [&](const Tensor& /*gradient*/) {
    ++calls;
    return Tensor();
  };
  run_meanwhile(
      [&] {
        for (int i = 0; i < count; ++i) sum(h * 1.0).backward({.retain_graph = true});
      },
      [&] {
        const std::size_t on_leaf = x.register_hook(counting), on_result = h.register_hook(counting);
        std::this_thread::yield();
        x.remove_hook(on_leaf);
        h.remove_hook(on_result);
      });
  EXPECT_EQ(x.grad().item(), 2 * count * 2 * 3);
  const int before = calls;
  sum(h * 1.0).backward();
  EXPECT_EQ(calls, before) << "all were removed";
}

TEST(Threads, TheFirstHooksOfOneTensorAreAllKept) {
  std::vector<std::pair<Tensor, Tensor>> tensors;  // a leaf and a result
  for (int i = 0; i < times(3000); ++i) {
    const Tensor x = leaf();
    tensors.emplace_back(x, x * 1.0);
  }
  std::atomic<int> calls = 0;
  run_in_step(times(3000), [&](int i) {
    const auto& [x, h] = tensors[static_cast<std::size_t>(i)];
    for (const Tensor& tensor : {h, x}) {
      tensor.register_hook([&](const Tensor& /*gradient*/) {
        ++calls;
        return Tensor();
      });
    }
  });
  for (const auto& [x, h] : tensors) sum(h).backward();
  EXPECT_EQ(calls, times(3000) * 2 * kThreads);
}

TEST(Threads, AGradientIsReadAndSetDuringBackwards) {
  const Tensor x = leaf(kLarge);
  const int count = times(3000);
  run_meanwhile(
      [&] {
        for (int i = 0; i < count; ++i) add_one_to_gradient(x);
      },
      [&] {
        if (x.grad().defined()) x.set_grad({});
        x.set_grad(zeros({kLarge}));
      });
  const double left = x.grad().defined() ? only_value(x.grad()) : 0;
  EXPECT_LE(left, 2 * count);
  add_one_to_gradient(x);
  EXPECT_EQ(only_value(x.grad()), left + 1);
}

/// Three large parameters in two optimizers. All backwards go through one graph that reads no parameter's
/// values, which a step may be writing.
class OptimizerThreads : public ::testing::Test {
 protected:
  void backwards(int count) {
    for (int i = 0; i < count; ++i) loss.backward({.retain_graph = true});
  }
  void expect_whole() {
    for (const Tensor& p : parameters) {
      only_value(p);
      if (p.grad().defined()) only_value(p.grad());
    }
  }

  std::vector<Tensor> parameters{leaf(kLarge), leaf(kLarge), leaf(kLarge)};
  Tensor loss = sum(parameters[0] * 1.0 + parameters[1] + parameters[2]);
  optim::SGD optimizer{parameters, {.lr = 1, .momentum = 0.5}};
  optim::SGD reversed{std::vector<Tensor>{parameters[2], parameters[1], parameters[0]}, {.lr = 1}};
};

TEST_F(OptimizerThreads, AStepTakesGradientsOfBackwardsAsTheyWereOrAre) {
  run_meanwhile([&] { backwards(times(300)); }, [&] { optimizer.step(); });
  expect_whole();
  EXPECT_EQ(only_value(parameters[0].grad()), 2 * times(300));
}

TEST_F(OptimizerThreads, ZerosInPlaceAreWhole) {
  run_meanwhile([&] { backwards(times(1000)); }, [&] { optimizer.zero_grad(false); });
  expect_whole();
}

TEST_F(OptimizerThreads, GradientsGoDuringBackwardsAndSteps) {
  run_together({[&] { backwards(times(1000)); },
                [&] {
                  for (int i = 0; i < times(1000); ++i) optimizer.zero_grad();
                },
                [&] {
                  for (int i = 0; i < times(1000); ++i) optimizer.step();
                }});
  expect_whole();
}

TEST_F(OptimizerThreads, StepsOfTheSameParametersDoNotWaitForEver) {
  backwards(1);
  const int count = times(200);
  run_together({[&] {
                  for (int i = 0; i < count; ++i) reversed.step();
                },
                [&] {
                  for (int i = 0; i < count; ++i) reversed.step();
                },
                [&] {
                  for (int i = 0; i < count; ++i) optimizer.step();
                },
                [&] { backwards(count); }});
  expect_whole();
  EXPECT_EQ(reversed.step_calls(), 2U * static_cast<unsigned>(count));
}

TEST_F(OptimizerThreads, ClippingIsWhole) {
  run_meanwhile([&] { backwards(times(1000)); }, [&] { optim::clip_grad_value_(parameters, 7); });
  expect_whole();
}

TEST_F(OptimizerThreads, AScalersStepUnscalesWholeGradients) {
  amp::GradScaler scaler({.init_scale = 4});
  scaler.scale(loss).backward({.retain_graph = true});
  run_meanwhile([&] { backwards(times(200)); },
                [&] {
                  static_cast<void>(scaler.step(optimizer));
                  scaler.update();
                  static_cast<void>(scaler.scale(zeros({})));
                  scaler.unscale_(optimizer);
                  scaler.update();
                });
  expect_whole();
}

TEST_F(OptimizerThreads, A16BitCopyIsOfOneStep) {
  for (const Tensor& p : parameters) p.set_grad(ones({kLarge}));
  std::atomic<bool> stepping = true;
  run_together({[&] {
                  for (int i = 0; i < times(500); ++i) optimizer.step();
                  stepping = false;
                },
                [&] {
                  while (stepping) only_value(half_copy(parameters[0], DType::bf16));
                }});
  EXPECT_EQ(only_value(half_copy(parameters[0], DType::bf16)),
            only_value(parameters[0].detach().to(DType::bf16)));
}

}  // namespace
}  // namespace mezzo
