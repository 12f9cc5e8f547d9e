// Optimizers, schedules and scalers around a captured step: what changes between replays has the effect that
// it has on an eager step, and what a replay cannot follow is refused with one line.
#include <functional>
#include <string>
#include <vector>

#include "cuda/captured_training.h"

namespace mezzo::captured {
namespace {

class CudaCapturedState : public twin::CudaTwin {};

TEST_F(CudaCapturedState, RatesThatTheHostSets) {
  expect_same_bits({.before = [](Training& training, int i) {
    if (i % 2 == 1) training.optimizer->set_lr(0.05 / (i + 1));
    if (i == 6) training.optimizer->set_momentum(0.5);
  }});
}

/// Two trainings whose steps end with one of `schedule`.
void expect_same_bits_under(const optim::Schedule& schedule,
                            const std::function<void(optim::LRScheduler&, Training&, int)>& before) {
  Training eager(true), captured(true);
  optim::LRScheduler first(*eager.optimizer, schedule), second(*captured.optimizer, schedule);
  const auto scheduler_of = [&](Training& training) -> optim::LRScheduler& {
    return &training == &eager ? first : second;
  };
  Scenario scenario;
  scenario.step = [&](Training& training) {
    training.optimizer->zero_grad();
    const Tensor loss = training.loss();
    training.scaler.scale(loss).backward();
    scheduler_of(training).step(training.scaler.step(*training.optimizer));
    training.scaler.update();
    return loss.detach();
  };
  scenario.before = [&](Training& training, int i) {
    // A step that the scaler skips, which the schedule does not count.
    if (i == 5) training.input.fill_(twin::kInf);
    before(scheduler_of(training), training, i);
  };
  expect_same_bits(scenario, eager, captured);
  EXPECT_EQ(second.last_epoch(), first.last_epoch());
  EXPECT_EQ(second.get_last_lr(), first.get_last_lr());
}

TEST_F(CudaCapturedState, SchedulesInTheStep) {
  for (const optim::Schedule& schedule :
       {optim::Schedule(optim::OneCycleLROptions{.max_lr = 0.1, .total_steps = 12}),
        optim::Schedule(optim::StepLROptions{.step_size = 2, .gamma = 0.5})}) {
    expect_same_bits_under(schedule, [](optim::LRScheduler&, Training&, int) {});
  }
}

TEST_F(CudaCapturedState, AScheduleThatIsLoadedBetweenReplays) {
  Value saved;
  expect_same_bits_under(optim::StepLROptions{.step_size = 2, .gamma = 0.5},
                         [&](optim::LRScheduler& scheduler, Training&, int i) {
                           if (i == 2) saved = scheduler.state_dict();
                           if (i == 3 || i == 7) scheduler.load_state_dict(saved);
                         });
}

TEST_F(CudaCapturedState, AScheduleOfTheHostBetweenReplays) {
  Training eager(false), captured(false);
  optim::ReduceLROnPlateau first(*eager.optimizer, {.patience = 0}),
      second(*captured.optimizer, {.patience = 0});
  expect_same_bits({.before =
                        [&](Training& training, int i) {
                          if (i > 0) (&training == &eager ? first : second).step(1.0);
                        }},
                   eager, captured);
}

TEST_F(CudaCapturedState, LoadedOptimizerStateIsWhereTheFormerOneWas) {
  Training training(true);
  amp::CapturedStep step(
      kDevice, [&] { return training.step(); }, 1);
  training.load(0);
  for (int i = 0; i < 2; ++i) static_cast<void>(step());
  optim::OptimizerState state = training.optimizer->state_dict();
  std::vector<const void*> before, after;
  for (auto& [name, tensor] : state.tensors) {
    before.push_back(tensor.impl().data());
    tensor = tensor.clone();
  }
  training.optimizer->load_state_dict(state);
  for (const auto& [name, tensor] : training.optimizer->state_dict().tensors)
    after.push_back(tensor.impl().data());
  EXPECT_EQ(after, before);
}

// --- what cannot be kept right

struct Refusal {
  std::string name, says;
  std::function<void(Training&)> change;
};

TEST_F(CudaCapturedState, WhatAReplayCannotFollowIsRefused) {
  const Refusal refusals[] = {
      {"moved weights", "moved or converted", [](Training& t) { t.net.to(DType::f64).to(DType::f32); }},
      {"other options", "with the parameters, state and options",
       [](Training& t) {
         const optim::AdamW other(t.net.parameters(), optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.5});
         optim::OptimizerState state = t.optimizer->state_dict();
         state.options = other.state_dict().options;
         t.optimizer->load_state_dict(state);
       }},
      {"state taken away", "with the parameters, state and options",
       [](Training& t) {
         optim::OptimizerState state = t.optimizer->state_dict();
         state.tensors.clear();
         t.optimizer->load_state_dict(state);
       }},
      {"one more group", "with the parameters, state and options",
       [](Training& t) {
         const Tensor more = ones({2}, {.device = kDevice, .requires_grad = true});
         dynamic_cast<optim::AdamW&>(*t.optimizer).add_param_group({optim::unnamed({more}), {}});
       }},
      {"no optimizer", "an optimizer that lives", [](Training& t) { t.optimizer.reset(); }},
      {"another rule of the scaler", "with the factors, interval, bounds and write_unscaled",
       [](Training& t) { t.scaler.set_growth_interval(7); }},
      {"gradients left scaled", "with the factors, interval, bounds and write_unscaled",
       [](Training& t) {
         amp::GradScalerOptions options = t.scaler.options();
         options.write_unscaled = false;
         t.scaler.set_options(options);
       }},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.name);
    Training training(true);
    amp::CapturedStep step(
        kDevice, [&] { return training.step(); }, 1);
    training.load(0);
    for (int i = 0; i < 3; ++i) static_cast<void>(step());
    refusal.change(training);
    std::vector<double> before, after;
    for (const Tensor& p : training.net.parameters()) before.push_back(sum(p.detach()).item<double>());
    try {
      static_cast<void>(step());
      ADD_FAILURE() << "nothing was refused";
    } catch (const StateError& error) {
      EXPECT_NE(std::string(error.what()).find(refusal.says), std::string::npos) << error.what();
    }
    for (const Tensor& p : training.net.parameters()) after.push_back(sum(p.detach()).item<double>());
    EXPECT_EQ(after, before);
  }
}

TEST_F(CudaCapturedState, OptionsThatAreLoadedAsTheyWereAreNotRefused) {
  Training training(true);
  amp::CapturedStep step(
      kDevice, [&] { return training.step(); }, 1);
  training.load(0);
  for (int i = 0; i < 3; ++i) static_cast<void>(step());
  training.optimizer->set_lr(0.5);
  training.optimizer->load_state_dict(training.optimizer->state_dict());
  training.scaler.load_state_dict(training.scaler.state_dict());
  EXPECT_NO_THROW(static_cast<void>(step()));
}

TEST_F(CudaCapturedState, GradientsThatAreNoLongerThereAreRefused) {
  const auto without_zero_grad = [](Training& training) {
    const Tensor loss = training.loss();
    training.scaler.scale(loss).backward();
    training.update();
    return loss.detach();
  };
  // Recorded with gradients to add to, and dropped; recorded without, and then there.
  for (const bool had_gradients : {true, false}) {
    Training training(false);
    amp::CapturedStep step(
        kDevice, [&] { return without_zero_grad(training); }, 1);
    training.load(0);
    static_cast<void>(step());
    if (!had_gradients) training.optimizer->zero_grad();
    static_cast<void>(step());
    if (had_gradients) {
      EXPECT_NO_THROW(static_cast<void>(step()));
      training.optimizer->zero_grad();
    }
    EXPECT_THROW(static_cast<void>(step()), StateError);
    if (!had_gradients) {
      training.optimizer->zero_grad();
      EXPECT_NO_THROW(static_cast<void>(step()));
    }
  }
}

TEST_F(CudaCapturedState, AccumulationWithoutZeroGradInTheStep) {
  expect_same_bits({.step = [](Training& training) {
    const Tensor loss = training.loss();
    training.scaler.scale(loss).backward();
    training.update();
    return loss.detach();
  }});
}

TEST_F(CudaCapturedState, ZeroGradBeforeEachCall) {
  expect_same_bits({.step =
                        [](Training& training) {
                          const Tensor loss = training.loss();
                          training.scaler.scale(loss).backward();
                          training.update();
                          return loss.detach();
                        },
                    .before =
                        [](Training& training, int i) {
                          for (const Tensor& p : training.net.parameters()) {
                            if (i > 0) training.note(p.grad());
                          }
                          training.optimizer->zero_grad();
                        }});
}

TEST_F(CudaCapturedState, AFirstStepOrScaleIsNotRecorded) {
  const Tensor w = ones({3}, {.device = kDevice, .requires_grad = true});
  w.set_grad(ones({3}, {.device = kDevice}));
  optim::AdamW optimizer(std::vector<Tensor>{w}, {.lr = 0.1});
  bool recording = false;
  amp::CapturedStep step(
      kDevice,
      [&] {
        if (recording) optimizer.step();
        return w.detach();
      },
      1);
  static_cast<void>(step());
  recording = true;
  EXPECT_THROW(static_cast<void>(step()), StateError);
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(3, 1));
  amp::GradScaler scaler;
  bool scaling = false;
  amp::CapturedStep scaled(
      kDevice, [&] { return scaling ? scaler.scale(sum(w)).detach() : w.detach(); }, 1);
  static_cast<void>(scaled());
  scaling = true;
  EXPECT_THROW(static_cast<void>(scaled()), StateError);
  EXPECT_NO_THROW(static_cast<void>(scaler.scale(sum(w))));
}

}  // namespace
}  // namespace mezzo::captured
