// Schedules on the device: the rates of the CPU, and a captured step that follows them over skipped replays.
#include <memory>

#include "cuda/twin.h"
#include "mezzo/amp/captured_step.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/lr_scheduler.h"
#include "mezzo/optim/plateau_scheduler.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::optim {
namespace {

class CudaSchedule : public twin::CudaTwin {};

const LrLambda kRoot = [](std::int64_t t) { return 1 / std::sqrt(static_cast<double>(t + 1)); };

std::vector<Schedule> all_kinds() {
  return {ConstantLROptions{.factor = 0.25, .total_iters = 7},
          StepLROptions{.step_size = 3, .gamma = 0.7},
          MultiStepLROptions{.milestones = {2, 5, 5, 11}},
          CosineAnnealingLROptions{.T_max = 9, .eta_min = 0.01},
          CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2},
          LinearLROptions{.total_iters = 8},
          WarmupCosineOptions{.warmup_steps = 3, .total_steps = 15, .min_ratio = 0.1},
          WarmupStableDecayOptions{
              .warmup_steps = 3, .stable_steps = 4, .decay_steps = 9, .decay = DecayForm::one_minus_sqrt},
          PolynomialLROptions{.total_iters = 10, .power = 1.5},
          OneCycleLROptions{
              .max_lr = {1, 2}, .total_steps = 18, .base_momentum = {0.5, 0.6}, .three_phase = true},
          LambdaLROptions{.lr_lambda = {kRoot, [](std::int64_t) { return 0.5; }}, .tabulate = 6},
          SequentialLROptions{
              .schedulers = {LinearWarmupOptions{.warmup_steps = 4},
                             ChainedSchedulerOptions{.schedulers = {ExponentialLROptions{.gamma = 0.9},
                                                                    MultiStepLROptions{.milestones = {3}}}}},
              .milestones = {4}}};
}

TEST_F(CudaSchedule, GivesTheRatesOfTheCpu) {
  const std::vector<Schedule> schedules = all_kinds();
  for (const Schedule& schedule : schedules) {
    twin::expect_same([&](Device device, twin::Trace& trace) {
      std::vector<ParamGroup<SGDOptions>> groups;
      for (const double lr : {0.3, 0.07}) {
        groups.push_back({unnamed({twin::leaf(1, {3}, DType::f32, device)}), {.lr = lr, .momentum = 0.9}});
      }
      SGD optimizer(groups);
      LRScheduler scheduler(optimizer, schedule);
      for (int step = 0; step < 18; ++step) {
        for (std::size_t group = 0; group < 2; ++group)
          trace.add(schedule.name() + " " + std::to_string(step), optimizer.rates(group));
        optimizer.step();
        scheduler.step();
      }
    });
  }
}

/// A parameter under AdamW, a scaler and a one-cycle schedule, with a gradient that stays where it is.
struct Training {
  explicit Training(const Schedule& schedule) : scheduler(optimizer, schedule) {
    parameter.set_grad(zeros(parameter.shape(), {.device = device}));
  }
  Tensor step() {
    static_cast<void>(scaler.scale(zeros({}, {.device = device})));
    scheduler.step(scaler.step(optimizer));
    scaler.update();
    return parameter.detach();
  }
  void load(std::uint64_t i) const {
    parameter.grad().copy_(twin::values(i, {700}, DType::f32, device));
    if (i == 3 || i == 6) twin::set_element(parameter.grad(), 5, twin::kInf);
  }
  [[nodiscard]] std::vector<double> state() const {
    std::vector<double> all = parameter.detach().to_vector<double>();
    all.insert(all.end(),
               {optimizer.lr(), optimizer.momentum().value(), static_cast<double>(scheduler.last_epoch())});
    return all;
  }
  Device device = Device::cuda(0);
  Tensor parameter = twin::leaf(1, {700}, DType::f32, device);
  AdamW optimizer{std::vector<Tensor>{parameter}, {.lr = 0.01}};
  amp::GradScaler scaler{{.init_scale = 64}};
  LRScheduler scheduler;
};

TEST_F(CudaSchedule, ACapturedStepFollowsItOverSkips) {
  for (const Schedule& schedule :
       std::vector<Schedule>{OneCycleLROptions{.max_lr = 0.1, .total_steps = 9},
                             LambdaLROptions{.lr_lambda = kRoot, .tabulate = 20}}) {
    Training eager(schedule), captured(schedule);
    amp::CapturedStep step(
        captured.device, [&] { return captured.step(); }, 2);
    for (std::uint64_t i = 0; i < 10; ++i) {
      eager.load(i);
      captured.load(i);
      static_cast<void>(eager.step());
      const std::uint64_t before = host_reads();
      static_cast<void>(step());
      EXPECT_EQ(host_reads() - before, 0U);
      EXPECT_EQ(captured.state(), eager.state()) << schedule.name() << ", call " << i;
      EXPECT_EQ(step.is_recorded(), i >= 2);
    }
    EXPECT_EQ(captured.scheduler.last_epoch(), 8);
    EXPECT_NEAR(captured.optimizer.lr(), captured.scheduler.get_last_lr().front(), 1e-15);
  }
}

TEST_F(CudaSchedule, ARecordedStepGoesOnFromALoadedState) {
  Training run(StepLROptions{.step_size = 2, .gamma = 0.5});
  amp::CapturedStep step(
      run.device, [&] { return run.step(); }, 1);
  for (std::uint64_t i = 0; i < 3; ++i) static_cast<void>(step());
  Value state = run.scheduler.state_dict();
  EXPECT_EQ(state.at("last_epoch").as_int(), 3);
  run.scheduler.load_state_dict(state.set("last_epoch", 7).set("base_lrs", Value::list(1.0)));
  EXPECT_EQ(run.optimizer.lr(), 0.125);
  static_cast<void>(step());
  EXPECT_DOUBLE_EQ(run.optimizer.lr(), 0.0625);  // a GPU's pow may be one unit off
  EXPECT_EQ(run.scheduler.last_epoch(), 8);
}

TEST_F(CudaSchedule, WithoutAScalerReplaysCountToo) {
  const Device device = Device::cuda(0);
  const Tensor parameter = twin::leaf(1, {5}, DType::f32, device);
  parameter.set_grad(ones({5}, {.device = device}));
  SGD optimizer(std::vector<Tensor>{parameter}, {.lr = 1});
  ExponentialLR scheduler(optimizer, {.gamma = 0.5});
  amp::CapturedStep step(
      device,
      [&] {
        optimizer.step();
        scheduler.step();
        return parameter.detach();
      },
      1);
  for (int i = 0; i < 5; ++i) static_cast<void>(step());
  EXPECT_EQ(scheduler.last_epoch(), 5);
  EXPECT_EQ(optimizer.lr(), 1.0 / 32);
}

TEST_F(CudaSchedule, WhatTheHostDecidesIsNotRecorded) {
  const Device device = Device::cuda(0);
  const Tensor parameter = twin::leaf(1, {5}, DType::f32, device);
  parameter.set_grad(ones({5}, {.device = device}));
  SGD optimizer(std::vector<Tensor>{parameter}, {.lr = 1});
  LambdaLR scheduler(optimizer, {.lr_lambda = kRoot});
  ReduceLROnPlateau plateau(optimizer);
  const std::function<void()> calls[] = {[&] { scheduler.step(); }, [&] { plateau.step(1.0); }};
  for (const auto& call : calls) {
    bool recording = false;
    amp::CapturedStep step(
        device,
        [&] {
          optimizer.step();
          if (recording) call();
          return parameter.detach();
        },
        1);
    static_cast<void>(step());
    recording = true;
    EXPECT_THROW(static_cast<void>(step()), StateError);
  }
  EXPECT_EQ(optimizer.lr(), 1);
  EXPECT_EQ(scheduler.last_epoch() + plateau.last_epoch(), 0);
}

TEST_F(CudaSchedule, ARecordOfAnotherDeviceIsRefused) {
  Training run(StepLROptions{.step_size = 2});
  static_cast<void>(run.step());
  const Tensor record = zeros({static_cast<std::int64_t>(sizeof(ScalerRecord))}, {.dtype = DType::u8});
  EXPECT_THROW(run.scheduler.step({record}), DeviceError);
}

}  // namespace
}  // namespace mezzo::optim
