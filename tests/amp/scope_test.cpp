// Guards and observers that end out of order, in their own callbacks, on another thread, after their thread,
// and while an exception passes: the thread they were made on is as if they had ended in order, and no other
// one changes.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/trace.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/core/error.h"
#include "mezzo/nn/anomaly.h"
#include "mezzo/nn/call.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/nn/summary.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

struct Counting final : OpObserver {
  explicit Counting(std::function<void()> act = [] {}) : then(std::move(act)) {}
  void ran(const OpInfo& /*info*/, Inputs /*inputs*/, std::optional<DType> /*run_dtype*/,
           const Outputs& /*outputs*/) override {
    ++ops;
    const std::function<void()> last = then;  // it may destroy this object
    last();
  }
  int ops = 0;
  std::function<void()> then;
};

struct Calls final : nn::CallObserver {
  void enter(const nn::Module& /*module*/) override {
    ++entered;
    if (throws) throw std::runtime_error("enter");
  }
  void leave(const nn::Module& /*module*/, const Tensor* /*output*/) override { ++left; }
  int entered = 0, left = 0;
  bool throws = false;
};

struct Backwards final : BackwardObserver {
  void after_vjp(const autograd::Node& /*node*/, std::span<const Tensor> /*gradients*/) override {
    ++nodes;
    if (on_node) {
      const std::function<void()> last = on_node;  // it may destroy this object
      last();
    }
  }
  int nodes = 0;
  std::function<void()> on_node;
};

void run_op() { static_cast<void>(ones({2}) * 2.0); }
void run_backward() {
  const Tensor x = ones({2}).requires_grad_();
  sum(x * x).backward();
}

/// What guards of one kind show: `make(i)` is guard number i of three, `seen()` which of them counts; -1:
/// none.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<void>(int)> make;
  std::function<int()> seen;
};

const std::array<DType, 3> kRegion{DType::f16, DType::bf16, DType::f32};

std::vector<Kind> kinds() {
  static std::array<Counting, 3> observers;
  static std::array<Calls, 3> callers;
  const auto recording = [](int i) -> std::shared_ptr<void> {
    if (i == 1) return std::make_shared<EnableGrad>();
    return std::make_shared<NoGrad>();
  };
  return {
      {"NoGrad", recording, nullptr},
      {"Autocast", [](int i) { return std::make_shared<amp::Autocast>(Device::cpu(), kRegion.at(i)); },
       [] {
         if (!amp::is_autocast_enabled(DeviceType::cpu)) return -1;
         for (int i = 0; i < 3; ++i) {
           if (amp::autocast_dtype(DeviceType::cpu) == kRegion.at(i)) return i;
         }
         return -2;
       }},
      {"OpObserverGuard", [](int i) { return std::make_shared<OpObserverGuard>(&observers.at(i)); },
       [] {
         for (int i = 0; i < 3; ++i) {
           if (op_observer() == &observers.at(i)) return i;
         }
         return op_observer() == nullptr ? -1 : -2;
       }},
      {"CallObserverGuard", [](int i) { return std::make_shared<nn::CallObserverGuard>(callers.at(i)); },
       [] {
         for (int i = 0; i < 3; ++i) {
           if (nn::detail::call_observer() == &callers.at(i)) return i;
         }
         return nn::detail::call_observer() == nullptr ? -1 : -2;
       }},
      {"PolicyOverride",
       [](int i) {
         return std::make_shared<amp::PolicyOverride>(
             "softmax", std::array{Category::lower_precision, Category::promote, Category::banned}.at(i));
       },
       [] {
         for (const amp::PolicyRow& row : amp::policy()) {
           if (row.op != "softmax") continue;
           if (!row.overridden) return -1;
           return row.category == Category::lower_precision ? 0 : row.category == Category::promote ? 1 : 2;
         }
         return -2;
       }},
  };
}

int seen_of(const Kind& kind, const std::vector<int>& alive) {
  if (kind.seen) return kind.seen();
  // Recording: on without a guard, off in the first and third.
  const bool wanted = alive.empty() || alive.back() == 1;
  return grad_enabled() == wanted ? (alive.empty() ? -1 : alive.back()) : -2;
}

/// Ends three guards in the order given, each on a thread of its own where `elsewhere` is set.
void end_in_order(const Kind& kind, const std::array<int, 3>& order, bool elsewhere) {
  std::array<std::shared_ptr<void>, 3> guards;
  std::vector<int> alive;
  for (int i = 0; i < 3; ++i) {
    guards.at(i) = kind.make(i);
    alive.push_back(i);
    ASSERT_EQ(seen_of(kind, alive), i);
  }
  for (const int i : order) {
    if (elsewhere) {
      std::thread([&] {
        guards.at(i).reset();
        EXPECT_EQ(seen_of(kind, {}), -1) << "the thread that ends it";
      }).join();
    } else {
      guards.at(i).reset();
    }
    std::erase(alive, i);
    ASSERT_EQ(seen_of(kind, alive), alive.empty() ? -1 : alive.back()) << "after guard " << i;
  }
}

TEST(Scopes, EndInAnyOrderAndOnAnyThread) {
  for (const Kind& kind : kinds()) {
    for (const auto& order : {std::array{0, 1, 2}, std::array{0, 2, 1}, std::array{1, 0, 2},
                              std::array{1, 2, 0}, std::array{2, 0, 1}, std::array{2, 1, 0}}) {
      for (const bool elsewhere : {false, true}) {
        SCOPED_TRACE(kind.name + ", first " + std::to_string(order[0]) + ", then " +
                     std::to_string(order[1]) + (elsewhere ? ", on other threads" : ""));
        end_in_order(kind, order, elsewhere);
      }
    }
  }
}

TEST(Scopes, OutliveTheThreadThatMadeThem) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    std::array<std::shared_ptr<void>, 3> guards;
    std::thread([&] {
      for (int i = 0; i < 3; ++i) guards.at(i) = kind.make(i);
    }).join();
    EXPECT_EQ(seen_of(kind, {}), -1);
    const auto mine = kind.make(0);
    for (auto& guard : guards) guard.reset();
    EXPECT_EQ(seen_of(kind, {0}), 0);
    // A new thread may have its lists where those of the old one were.
    std::thread([&] { EXPECT_EQ(seen_of(kind, {}), -1); }).join();
  }
}

TEST(Scopes, EndWhenAnExceptionPasses) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    std::shared_ptr<void> kept;
    try {
      const auto first = kind.make(0);
      kept = kind.make(2);
      const auto last = kind.make(1);
      throw std::runtime_error("passes");
    } catch (const std::runtime_error&) {
      EXPECT_EQ(seen_of(kind, {2}), 2);
    }
    kept.reset();
    EXPECT_EQ(seen_of(kind, {}), -1);
  }
}

TEST(Scopes, RegionsOfTwoDevicesOrWithACacheKeepWhatTheOthersSet) {
  auto cpu = std::make_unique<amp::Autocast>(Device::cpu(), DType::f16);
  auto uncached =
      std::make_unique<amp::Autocast>(Device::cpu(), DType::bf16, amp::AutocastOptions{true, false});
  EXPECT_FALSE(amp::is_autocast_cache_enabled());
  auto off = std::make_unique<amp::Autocast>(Device::cpu(), std::nullopt, amp::AutocastOptions{false, {}});
  EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cpu));
  EXPECT_FALSE(amp::is_autocast_cache_enabled());
  uncached.reset();
  EXPECT_TRUE(amp::is_autocast_cache_enabled()) << "nobody sets it any more";
  EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cpu));
  off.reset();
  EXPECT_EQ(amp::autocast_dtype(DeviceType::cpu), DType::f16);
  cpu.reset();
  EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cpu));
}

TEST(Scopes, TheLastRegionDropsCopiesOfWeightsWhereverItEnds) {
  const Tensor w = ones({8, 8}).requires_grad_(), x = ones({8, 8});
  const auto casts = [&] {
    const amp::Trace trace;
    static_cast<void>(matmul(x, w));
    return trace.report().casts();
  };
  auto first = std::make_unique<amp::Autocast>(Device::cpu(), DType::f16);
  auto second = std::make_unique<amp::Autocast>(Device::cpu(), DType::f16);
  EXPECT_EQ(casts().weights, 1);
  first.reset();
  EXPECT_EQ(casts().spared, 1) << "a region is open still";
  std::thread([&] { second.reset(); }).join();
  const amp::Autocast again(Device::cpu(), DType::f16);
  EXPECT_EQ(casts().weights, 1) << "the copy went with the last region";
}

// --- inside of an op

/// What an op's forward does: ends guards from around it, and begins one that stays.
TEST(Scopes, CrossTheBoundsOfABackward) {
  std::optional<NoGrad> outside;
  std::unique_ptr<NoGrad> begun_inside;
  bool recorded_inside = true;
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(x * x);
  outside.emplace();
  static_cast<void>(x.register_hook([&](const Tensor& gradient) {
    outside.reset();
    recorded_inside = grad_enabled();
    begun_inside = std::make_unique<NoGrad>();
    return gradient;
  }));
  y.backward();
  EXPECT_FALSE(recorded_inside) << "the backward does not record, whoever ends around it";
  EXPECT_FALSE(grad_enabled()) << "the guard that was begun inside lives";
  begun_inside.reset();
  EXPECT_TRUE(grad_enabled());
}

TEST(Scopes, AnObserverMayEndItselfInItsCallback) {
  std::unique_ptr<OpObserverGuard> guard;
  auto observer = std::make_unique<Counting>();
  int ops = 0;
  observer->then = [&] {
    ++ops;
    guard.reset();
    observer.reset();
  };
  guard = std::make_unique<OpObserverGuard>(observer.get());
  run_op();
  EXPECT_GE(ops, 1);
  EXPECT_EQ(op_observer(), nullptr);
  EXPECT_EQ(observer, nullptr);

  std::unique_ptr<Backwards> backward = std::make_unique<Backwards>();
  backward->on_node = [&] { backward.reset(); };
  run_backward();
  EXPECT_EQ(backward, nullptr);
  EXPECT_EQ(BackwardObserver::current(), nullptr);
}

TEST(Scopes, AnObserverThatThrowsLeavesAllAsItWas) {
  Counting observer([] { throw std::runtime_error("observer"); });
  {
    const OpObserverGuard guard(&observer);
    EXPECT_THROW(run_op(), std::runtime_error);
    EXPECT_EQ(op_observer(), &observer);
    EXPECT_TRUE(grad_enabled());
  }
  Calls calls;
  calls.throws = true;
  nn::Linear fc(2, 2);
  {
    const nn::CallObserverGuard guard(calls);
    EXPECT_THROW(static_cast<void>(fc(ones({1, 2}))), std::runtime_error);
  }
  EXPECT_EQ(calls.left, 0) << "enter threw";
  {
    Backwards backward;
    backward.on_node = [] { throw std::runtime_error("backward"); };
    EXPECT_THROW(run_backward(), std::runtime_error);
    EXPECT_FALSE(autograd::progress().in_backward);
    EXPECT_TRUE(grad_enabled());
  }
  EXPECT_EQ(BackwardObserver::current(), nullptr);
}

TEST(Scopes, BackwardObserversEndInAnyOrderAndOnAnyThread) {
  auto first = std::make_unique<Backwards>(), second = std::make_unique<Backwards>();
  first.reset();
  run_backward();
  EXPECT_GT(second->nodes, 0);
  Backwards* const last = second.get();
  EXPECT_EQ(BackwardObserver::current(), last);
  std::thread([&] { second.reset(); }).join();
  EXPECT_EQ(BackwardObserver::current(), nullptr);
  run_backward();
}

// --- traces and anomaly detection

TEST(Scopes, TracesEndInAnyOrder) {
  auto first = std::make_unique<amp::Trace>();
  const auto second = std::make_unique<amp::Trace>();
  auto third = std::make_unique<amp::Trace>();
  const amp::Autocast region(Device::cpu(), DType::f16);
  const Tensor x = ones({8, 8});
  const auto product = [&] { static_cast<void>(matmul(x, x)); };
  product();
  first.reset();
  product();
  EXPECT_EQ(second->report().calls(), 2);
  std::thread([&] { third.reset(); }).join();
  product();
  EXPECT_EQ(second->report().calls(), 3);
  EXPECT_EQ(second->report().casts().casts, 6);
}

TEST(Scopes, AnOpThatThrowsLeavesItsCastsToNoOther) {
  const amp::Autocast region(Device::cpu(), DType::f16);
  const amp::Trace trace;
  EXPECT_THROW(static_cast<void>(matmul(ones({2, 3}), ones({2, 3}))), ShapeError);
  static_cast<void>(matmul(ones({2, 2}), ones({2, 2})));
  EXPECT_EQ(trace.report().casts().casts, 2);
}

TEST(Scopes, ATraceMayEndInTheCallbackOfAnObserverAroundIt) {
  std::unique_ptr<amp::Trace> trace;
  Counting observer([&] { trace.reset(); });
  const OpObserverGuard guard(&observer);
  trace = std::make_unique<amp::Trace>();
  run_op();
  EXPECT_EQ(trace, nullptr);
  const int before = observer.ops;
  run_op();
  EXPECT_GT(observer.ops, before);
}

/// A module whose forward does something before it passes x on.
struct Acts final : nn::Layer {
  explicit Acts(std::function<void()> act) : then(std::move(act)) {}
  Tensor forward(const Tensor& x) override {
    then();
    return x * 1.0;
  }
  std::function<void()> then;
};

TEST(Scopes, AnomalyDetectionMayEndInAModuleThatItWatches) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    std::array<std::unique_ptr<autograd::DetectAnomaly>, 2> watches;
    for (auto& watch : watches) watch = std::make_unique<autograd::DetectAnomaly>();
    Acts net([&] {
      for (int i = 0; i < 2; ++i) {
        if (which == i || which == 2) watches.at(i).reset();
      }
    });
    EXPECT_EQ(net(ones({2})).numel(), 2);
    EXPECT_EQ(autograd::progress().place, nullptr) << "the place is that outside of the module";
    for (auto& watch : watches) {
      if (watch == nullptr) continue;
      EXPECT_THROW(static_cast<void>(log(zeros({2}) - 1.0)), AutogradError) << "the other one still looks";
    }
  }
  EXPECT_EQ(nn::detail::call_observer(), nullptr);
  EXPECT_EQ(op_observer(), nullptr);
}

TEST(Scopes, AnomalyDetectionMayEndInAHookAndOnAnotherThread) {
  auto watch = std::make_unique<autograd::DetectAnomaly>();
  auto other = std::make_unique<autograd::DetectAnomaly>();
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = x * x;
  static_cast<void>(y.register_hook([&](const Tensor& gradient) {
    watch.reset();
    return gradient;
  }));
  sum(y).backward();
  EXPECT_FALSE(other->found());
  std::thread([&] { other.reset(); }).join();
  EXPECT_TRUE(isnan(log(zeros({1}) - 1.0)).item<bool>());
  EXPECT_EQ(autograd::progress().place, nullptr);
}

TEST(Scopes, ASummaryBearsObserversThatEndInItsCalls) {
  Calls calls;
  std::unique_ptr<nn::CallObserverGuard> guard;
  std::unique_ptr<autograd::DetectAnomaly> watch;
  const auto begin = nn::make<Acts>([&] {
    guard = std::make_unique<nn::CallObserverGuard>(calls);
    watch = std::make_unique<autograd::DetectAnomaly>();
  });
  const auto end = nn::make<Acts>([&] {
    guard.reset();
    watch.reset();
  });
  nn::Sequential net(begin, end, nn::make<nn::Linear>(3, 4));
  const nn::Summary summary = nn::summary(net, {2, 3});
  EXPECT_EQ(summary.rows.at(3).calls, 1);
  EXPECT_EQ(summary.mult_adds, 2 * 3 * 4);
  EXPECT_EQ(calls.entered, 1);
  EXPECT_EQ(nn::detail::call_observer(), nullptr);
}

}  // namespace
}  // namespace mezzo
