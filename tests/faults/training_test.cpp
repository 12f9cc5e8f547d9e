// Memory that is refused at each place of making a model and of a training step: the step ends in bad_alloc
// or an Error, holds no lock, and the same objects train on.
#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "mezzo/tests/faults/support.h"

namespace mezzo::test {
namespace {

/// Makes what a thread has but once. glibc ends the program where it gets no memory for the destructor of
/// such an object.
void warm_up() {
  const Tensor x = ones({1}).requires_grad_();
  const amp::Autocast autocast(Device::cpu(), DType::bf16);
  sum(x * x).backward();
}

class TrainingFaults : public FaultTest {
 protected:
  /// Runs `action` with the n-th request for memory refused, for each n, in a thread that has no memory in
  /// reserve; then `check`.
  void refuse_each(bool all_after, const std::function<void()>& prepare, const std::function<void()>& action,
                   const std::function<void()>& check) {
    int refused = 0;
    for (std::uint64_t n = 1, calls = n; calls >= n; ++n) {
      SCOPED_TRACE("request " + std::to_string(n) + (all_after ? " and all after it" : ""));
      prepare();
      empty_cache(Device::cpu());
      End end = End::success;
      std::string message;
      std::thread([&] {
        warm_up();
        end = run_with({.kinds = kMemory, .first = n, .all_after = all_after}, calls, message, action);
      }).join();
      if (end == End::refused) expect_clear(message);
      refused += end == End::success ? 0 : 1;
      check();
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(refused, 5);
  }
};

TEST_F(TrainingFaults, MakingAModel) {
  for (const bool all_after : {false, true}) {
    std::unique_ptr<Training> training;
    refuse_each(
        all_after, [&] { training.reset(); }, [&] { training = std::make_unique<Training>(); },
        [&] { ASSERT_TRUE(training == nullptr || std::isfinite(training->step())); });
  }
}

TEST_F(TrainingFaults, AFirstStep) {
  for (const bool all_after : {false, true}) {
    std::unique_ptr<Training> training;
    refuse_each(
        all_after, [&] { training = std::make_unique<Training>(); }, [&] { training->step(); },
        [&] {
          training->settle();
          ASSERT_TRUE(std::isfinite(training->step()));
          ASSERT_TRUE(std::isfinite(training->step()));
          for (const Tensor& parameter : training->net.parameters())
            ASSERT_TRUE(std::isfinite(sum(parameter).item()));
        });
  }
}

TEST_F(TrainingFaults, StepsOfOneTraining) {
  for (const bool all_after : {false, true}) {
    Training training;
    training.step();
    double last = 0;
    refuse_each(
        all_after, [] {}, [&] { training.step(); },
        [&] {
          training.settle();
          ASSERT_TRUE(std::isfinite(last = training.step()));
        });
    for (int i = 0; i < 20; ++i) last = training.step();
    EXPECT_LT(last, 1.0) << "it still learns";
  }
}

TEST_F(TrainingFaults, ForwardAndBackwardAlone) {
  const Tensor w = randn({8, 8}).requires_grad_(true), x = randn({4, 8});
  refuse_each(
      false, [&] { w.set_grad({}); },
      [&] {
        const Tensor h = softmax(matmul(tanh(x), w), -1);
        sum(h * h).backward();
      },
      [&] {
        w.set_grad({});
        sum(matmul(x, w)).backward();
        ASSERT_TRUE(std::isfinite(sum(w.grad()).item()));
      });
}

}  // namespace
}  // namespace mezzo::test
