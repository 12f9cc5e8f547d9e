// A schedule under a loss scaler: steps that are skipped are not counted, and nothing is read back.
#include <gtest/gtest.h>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/lr_scheduler.h"

namespace mezzo::optim {
namespace {

using amp::GradScaler;
using amp::OneParameter;

TEST(ScheduleSkip, ASkippedStepIsNotCounted) {
  OneParameter run;
  GradScaler scaler;
  const CosineAnnealingLROptions options{.T_max = 10, .eta_min = 0.125};
  CosineAnnealingLR scheduler(run.optimizer, options);
  std::int64_t made = 0;
  for (int i = 0; i < 12; ++i) {
    const bool overflow = i % 3 == 1;
    run.backward(scaler, overflow ? amp::kInf : 1.0);
    scheduler.step(scaler.step(run.optimizer));
    scaler.update();
    if (!overflow) ++made;
    EXPECT_EQ(run.optimizer.lr(), options.schedule().lr(made, 1)) << i;
  }
  EXPECT_EQ(made, 8);
  const std::uint64_t before = host_reads();
  EXPECT_EQ(scheduler.last_epoch(), made);
  EXPECT_EQ(host_reads() - before, 1U);
  EXPECT_EQ(scheduler.get_last_lr().front(), run.optimizer.lr());
  EXPECT_EQ(scheduler.state_dict().at("last_epoch").as_int(), made);
}

TEST(ScheduleSkip, AScalerThatIsOffSkipsNothing) {
  OneParameter run;
  GradScaler scaler({.enabled = false});
  ExponentialLR scheduler(run.optimizer, {.gamma = 0.5});
  run.backward(scaler);
  scheduler.step(scaler.step(run.optimizer));
  EXPECT_EQ(run.optimizer.lr(), 0.5);
  const std::uint64_t before = host_reads();
  EXPECT_EQ(scheduler.last_epoch(), 1);
  EXPECT_EQ(host_reads() - before, 0U) << "the host has counted";
}

TEST(ScheduleSkip, AFunctionOfTheHostCostsOneReadAndATableNone) {
  for (const std::int64_t tabulate : {0, 10}) {
    OneParameter run;
    GradScaler scaler;
    LambdaLR scheduler(
        run.optimizer,
        {.lr_lambda = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); }, .tabulate = tabulate});
    for (const bool overflow : {false, true, false}) {
      run.backward(scaler, overflow ? amp::kInf : 1.0);
      const amp::StepResult result = scaler.step(run.optimizer);
      const std::uint64_t before = host_reads();
      scheduler.step(result);
      EXPECT_EQ(host_reads() - before, tabulate == 0 ? 1U : 0U);
      scaler.update();
    }
    EXPECT_EQ(run.optimizer.lr(), 1.0 / 3);
  }
}

TEST(ScheduleSkip, ACycleWhoseStepsTheHostDoesNotKnowStaysAtItsEnd) {
  OneParameter run;
  GradScaler scaler;
  const OneCycleLROptions options{.max_lr = 0.5, .total_steps = 4};
  OneCycleLR scheduler(run.optimizer, options);
  for (int i = 0; i < 7; ++i) {
    run.backward(scaler);
    scheduler.step(scaler.step(run.optimizer));
    scaler.update();
  }
  EXPECT_EQ(run.optimizer.lr(), options.schedule().lr(3, 0));
  EXPECT_EQ(run.optimizer.momentum(), 0.95);
}

TEST(ScheduleSkip, AHundredStepsReadNothing) {
  const amp::Mlp net;
  AdamW optimizer(net.parameters, {.lr = 0.01});
  SequentialLR scheduler(optimizer, {.schedulers = {LinearWarmupOptions{.warmup_steps = 10},
                                                    CosineAnnealingLROptions{.T_max = 90}},
                                     .milestones = {10}});
  GradScaler scaler({.init_scale = 256, .growth_interval = 5});
  const amp::Batch batch(1);
  const Tensor one = ones({}), huge = full({}, 1e30);
  const std::uint64_t before = host_reads();
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const amp::Autocast region(Device::cpu(), DType::f16);
      loss = mse_loss(net.forward(batch.input), batch.target);
    }
    scaler.scale(loss * (step % 7 == 3 ? huge : one)).backward();
    scheduler.step(scaler.step(optimizer));
    scaler.update();
  }
  EXPECT_EQ(host_reads() - before, 0U);
  EXPECT_EQ(scaler.steps_skipped(), 14);
  EXPECT_EQ(scheduler.last_epoch(), 86);
}

}  // namespace
}  // namespace mezzo::optim
