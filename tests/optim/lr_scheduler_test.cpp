// Schedulers at an optimizer: when rates change and reach the update, states, and calls out of order.
#include "mezzo/optim/lr_scheduler.h"

#include <cmath>
#include <limits>
#include <memory>

#include "mezzo/optim/adagrad.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// SGD over one parameter per group.
struct Groups {
  explicit Groups(const std::vector<double>& lrs) {
    std::vector<ParamGroup<SGDOptions>> groups;
    for (const double lr : lrs) {
      parameters.push_back(parameter_of({1.0, 2.0}));
      groups.push_back({unnamed({parameters.back()}), {.lr = lr}});
    }
    optimizer = std::make_unique<SGD>(groups);
  }
  [[nodiscard]] std::vector<double> lrs() const {
    std::vector<double> result;
    for (std::size_t g = 0; g < optimizer->num_groups(); ++g) result.push_back(optimizer->lr(g));
    return result;
  }
  std::vector<Tensor> parameters;
  std::unique_ptr<SGD> optimizer;
};

TEST(LRScheduler, SetsTheRatesOfStepZeroAndOfEveryStep) {
  Groups run({0.5, 0.25});
  LinearWarmup scheduler(*run.optimizer, {.warmup_steps = 4});
  EXPECT_EQ(scheduler.base_lrs(), (std::vector<double>{0.5, 0.25}));
  for (const double part : {0.25, 0.5, 0.75, 1.0, 1.0}) {
    EXPECT_EQ(run.lrs(), (std::vector<double>{0.5 * part, 0.25 * part}));
    EXPECT_EQ(scheduler.get_last_lr(), run.lrs());
    run.optimizer->step();
    scheduler.step();
  }
  EXPECT_EQ(scheduler.last_epoch(), 5);
}

TEST(LRScheduler, LeavesLaterGroupsAlone) {
  Groups run({0.5});
  StepLR scheduler(*run.optimizer, {.step_size = 1});
  run.optimizer->add_param_group({unnamed({parameter_of({1.0})}), {.lr = 0.125}});
  run.optimizer->step();
  scheduler.step();
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.5 * 0.1, 0.125}));
}

TEST(LRScheduler, LambdasDifferByGroup) {
  const LrLambda halves = [](std::int64_t t) { return std::pow(0.5, static_cast<double>(t)); };
  const LrLambda grows = [](std::int64_t t) { return static_cast<double>(t + 1); };
  for (const std::int64_t tabulate : {0, 8}) {
    Groups run({1, 0.125});
    LambdaLR scheduler(*run.optimizer, {.lr_lambda = {halves, grows}, .tabulate = tabulate});
    for (std::int64_t t = 0; t < 6; ++t) {
      EXPECT_EQ(run.lrs(), (std::vector<double>{halves(t), 0.125 * grows(t)})) << tabulate << " " << t;
      run.optimizer->step();
      scheduler.step();
    }
  }
}

template <class O, class Options>
void expect_cycle_reaches_the_update(const Options& options) {
  const OneCycleLROptions cycle{.max_lr = 0.5, .total_steps = 12, .base_momentum = 0.6};
  const Tensor scheduled = parameter_of(values_of(1, 50)), by_hand = parameter_of(values_of(1, 50));
  O optimizer(std::vector<Tensor>{scheduled}, options), reference(std::vector<Tensor>{by_hand}, options);
  OneCycleLR scheduler(optimizer, cycle);
  std::vector<double> momenta;
  for (std::int64_t t = 0; t < 12; ++t) {
    const kernels::Rates rates = cycle.schedule().rates(t, {});
    reference.set_lr(rates.lr);
    reference.set_momentum(rates.momentum);
    momenta.push_back(optimizer.momentum().value());
    EXPECT_EQ(momenta.back(), rates.momentum);
    for (const Tensor& p : {scheduled, by_hand})
      p.set_grad(tensor(values_of(10 + static_cast<std::uint64_t>(t), 50), {.dtype = DType::f64}));
    optimizer.step();
    reference.step();
    scheduler.step();
    ASSERT_EQ(bits(scheduled), bits(by_hand)) << t;
  }
  EXPECT_EQ(momenta.front(), 0.95);
  EXPECT_NEAR(*std::min_element(momenta.begin(), momenta.end()), 0.6, 0.01);
}

TEST(LRScheduler, CyclesTheMomentumOfSgd) {
  expect_cycle_reaches_the_update<SGD>(SGDOptions{});  // made without any
}
TEST(LRScheduler, CyclesBeta1OfAdamW) { expect_cycle_reaches_the_update<AdamW>(AdamWOptions{}); }

TEST(LRScheduler, AStateTakenAtMomentum0HasItsBuffers) {
  const auto parameter = [] {
    const Tensor p = parameter_of({1.0, 2.0});
    p.set_grad(ones_like(p));
    return std::vector<Tensor>{p};
  };
  SGD saved(parameter(), {.momentum = 0.9}), loaded(parameter(), {.momentum = 0.9});
  OneCycleLR scheduler(
      saved, {.max_lr = 1, .total_steps = 5, .pct_start = 0.4, .base_momentum = 0, .max_momentum = 0.9});
  saved.step();
  scheduler.step();
  ASSERT_EQ(saved.momentum(), 0);
  loaded.load_state_dict(saved.state_dict());
  EXPECT_EQ(state_bits(loaded), state_bits(saved));
}

TEST(LRScheduler, ACycleOfMomentumNeedsSome) {
  Adagrad optimizer(std::vector<Tensor>{parameter_of({1.0})}, {.lr = 0.1});
  OneCycleLROptions cycle{.max_lr = 1, .total_steps = 10};
  EXPECT_THROW(OneCycleLR(optimizer, cycle), StateError);
  EXPECT_EQ(optimizer.lr(), 0.1);
  cycle.cycle_momentum = false;
  OneCycleLR scheduler(optimizer, cycle);
  optimizer.step();
  scheduler.step();
  EXPECT_NEAR(optimizer.lr(), cycle.schedule().lr(1, 0), 1e-15);
}

TEST(LRScheduler, CallsOutOfOrderAreRefused) {
  Groups run({0.5});
  run.optimizer->step();
  ExponentialLR scheduler(*run.optimizer, {.gamma = 0.5});
  EXPECT_THROW(scheduler.step(), StateError) << "no step since it was made";
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.5}));
  EXPECT_EQ(scheduler.last_epoch(), 0);
  run.optimizer->step();
  scheduler.step();
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.25}));
}

TEST(LRScheduler, ACycleEndsAfterItsSteps) {
  Groups run({0.5});
  OneCycleLR scheduler(*run.optimizer, {.max_lr = 1, .total_steps = 3});
  run.optimizer->step();
  for (int i = 0; i < 3; ++i) scheduler.step();
  const std::vector<double> last = run.lrs();
  EXPECT_THROW(scheduler.step(), StateError);
  EXPECT_EQ(run.lrs(), last);
  EXPECT_EQ(scheduler.last_epoch(), 3);
}

TEST(LRScheduler, WhatDoesNotFitTheOptimizerIsRefused) {
  Groups run({0.5, 0.25});
  const LrLambda one = [](std::int64_t) { return 1.0; };
  EXPECT_THROW(LambdaLR(*run.optimizer, {.lr_lambda = {one, one, one}}), ValueError);
  EXPECT_THROW(OneCycleLR(*run.optimizer, {.max_lr = {1, 2, 3}, .total_steps = 10}), ValueError);
  const LrLambda turns = [](std::int64_t t) { return t < 1 ? 1.0 : t < 2 ? -1.0 : kNan; };
  LambdaLR scheduler(*run.optimizer, {.lr_lambda = {one, turns}});
  run.optimizer->step();
  EXPECT_THROW(scheduler.step(), ValueError);
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(scheduler.last_epoch(), 0);
  EXPECT_THROW(scheduler.step({ones({3})}), ValueError) << "no scaler's record";
}

/// A schedule of several kinds, and training under it from a saved state.
const SequentialLROptions kMixed{.schedulers = {LinearLROptions{.total_iters = 3},
                                                CosineAnnealingWarmRestartsOptions{.T_0 = 4, .T_mult = 2}},
                                 .milestones = {3}};

void train(Optimizer& optimizer, LRScheduler& scheduler, const Tensor& parameter, std::uint64_t from,
           std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) {
    parameter.set_grad(tensor(values_of(100 + i, 20), {.dtype = DType::f64}));
    optimizer.step();
    scheduler.step();
  }
}

TEST(LRScheduler, AStateResumesToTheSameBits) {
  const Tensor whole = parameter_of(values_of(3, 20));
  AdamW optimizer(std::vector<Tensor>{whole}, {.lr = 0.1});
  SequentialLR scheduler(optimizer, kMixed);
  train(optimizer, scheduler, whole, 0, 6);
  const Tensor resumed = parameter_of(whole.to_vector<double>());
  const OptimizerState optimizer_state = saved(optimizer);
  const Value state = scheduler.state_dict();
  const double lr = optimizer.lr();
  train(optimizer, scheduler, whole, 6, 20);

  for (const bool scheduler_first : {false, true}) {
    const Tensor copy = parameter_of(resumed.to_vector<double>());
    AdamW other(std::vector<Tensor>{copy}, {.lr = 0.7});
    SequentialLR again(other, kMixed);
    if (scheduler_first) {
      again.load_state_dict(state);
      EXPECT_EQ(other.lr(), lr) << "without the optimizer's state too";
    }
    other.load_state_dict(optimizer_state);
    if (!scheduler_first) again.load_state_dict(state);
    EXPECT_EQ(again.last_epoch(), 6);
    EXPECT_EQ(again.base_lrs(), (std::vector<double>{0.1}));
    train(other, again, copy, 6, 20);
    EXPECT_EQ(bits(copy), bits(whole)) << scheduler_first;
    EXPECT_EQ(other.lr(), optimizer.lr());
  }
}

TEST(LRScheduler, LoadingSetsTheRatesOfALambdaToo) {
  Groups run({1});
  const LambdaLROptions options{.lr_lambda = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); }};
  LambdaLR scheduler(*run.optimizer, options);
  Value state = scheduler.state_dict();
  state.set("last_epoch", 3).set("base_lrs", Value::list(2.0));
  scheduler.load_state_dict(state);
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.5}));
  run.optimizer->step();
  scheduler.step();
  EXPECT_EQ(run.lrs(), (std::vector<double>{2.0 / 5}));
}

TEST(LRScheduler, StatesThatDoNotFitChangeNothing) {
  Groups run({0.5, 0.25});
  ExponentialLR scheduler(*run.optimizer, {.gamma = 0.5});
  run.optimizer->step();
  scheduler.step();
  const Value good = scheduler.state_dict();
  const auto with = [&](const char* key, Value value) { return Value(good).set(key, std::move(value)); };
  EXPECT_THROW(scheduler.load_state_dict(with("scheduler", "StepLR")), StateError);
  EXPECT_THROW(scheduler.load_state_dict(with("base_lrs", Value::list(0.5))), StateError);
  EXPECT_THROW(scheduler.load_state_dict(with("base_lrs", Value::list(0.5, -1.0))), ValueError);
  EXPECT_THROW(scheduler.load_state_dict(with("base_lrs", Value::list(0.5, "nan"))), ValueError);
  EXPECT_THROW(scheduler.load_state_dict(with("last_epoch", -1)), ValueError);
  EXPECT_THROW(scheduler.load_state_dict(with("last_epoch", 1.5)), ValueError);
  EXPECT_THROW(scheduler.load_state_dict(with("last_epoch", std::numeric_limits<std::int64_t>::max())),
               ValueError);
  EXPECT_THROW(scheduler.load_state_dict(Value::Map{{"last_epoch", 1}}), ValueError);
  EXPECT_EQ(run.lrs(), (std::vector<double>{0.25, 0.125}));
  EXPECT_EQ(scheduler.state_dict(), good);
}

}  // namespace
}  // namespace mezzo::optim
