// ReduceLROnPlateau against rates that PyTorch 2.15 printed, and its refusals.
#include "mezzo/optim/plateau_scheduler.h"

#include <limits>

#include "mezzo/core/backend.h"
#include "mezzo/optim/sgd.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

SGD optimizer_of(const std::vector<double>& lrs) {
  std::vector<ParamGroup<SGDOptions>> groups;
  for (const double lr : lrs) groups.push_back({unnamed({parameter_of({1.0})}), {.lr = lr}});
  return SGD(groups);
}

/// The rates of the first group after each metric.
std::vector<double> rates_of(const ReduceLROnPlateauOptions& options, const std::vector<double>& metrics) {
  SGD optimizer = optimizer_of({1});
  ReduceLROnPlateau scheduler(optimizer, options);
  std::vector<double> rates;
  for (const double metric : metrics) {
    scheduler.step(metric);
    rates.push_back(scheduler.get_last_lr().front());
  }
  return rates;
}

using List = std::vector<double>;

TEST(ReduceLROnPlateau, FollowsTorch) {
  EXPECT_EQ(rates_of({.factor = 0.5, .patience = 1}, {3, 2, 2, 2, 1.9999, 1.9, 1.9, 1.9}),
            (List{1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25}));
  EXPECT_EQ(rates_of({.mode = PlateauMode::max, .factor = 0.3, .patience = 0, .threshold = 0.1},
                     {1, 2, 1.9, 2.2, 2.3, 2.2, 2.5, 2.4, 2.4}),
            (List{1.0, 1.0, 0.3, 0.09, 0.09, 0.027, 0.0081, 0.00243, 0.0007289999999999999}));
  EXPECT_EQ(rates_of({.mode = PlateauMode::max,
                      .factor = 0.5,
                      .patience = 0,
                      .threshold = 0.25,
                      .threshold_mode = ThresholdMode::abs,
                      .cooldown = 1},
                     {1, 1.3, 1.35, 1.6, 1.6, 1.6, 1.6}),
            (List{1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125}));
  EXPECT_EQ(rates_of({.factor = 0.5,
                      .patience = 0,
                      .threshold = 0.15,
                      .threshold_mode = ThresholdMode::abs,
                      .cooldown = 2,
                      .min_lr = 0.3},
                     {1, 0.9, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7}),
            (List{1.0, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3}));
  EXPECT_EQ(rates_of({.factor = 0.9, .patience = 0, .eps = 0.085}, {1, 1, 1, 1, 1}),
            (List{1.0, 0.9, 0.81, 0.81, 0.81}));
}

TEST(ReduceLROnPlateau, FloorsEachGroupAndReadsATensorOnce) {
  SGD optimizer = optimizer_of({1, 0.5});
  ReduceLROnPlateau scheduler(optimizer, {.factor = 0.25, .patience = 0, .min_lr = {0.5, 0.0625}});
  scheduler.step(1.0);
  const std::uint64_t before = host_reads();
  scheduler.step(tensor({2.0}));
  EXPECT_EQ(host_reads() - before, 1U);
  EXPECT_EQ(scheduler.get_last_lr(), (List{0.5, 0.125}));
  EXPECT_EQ(scheduler.best(), 1);
  scheduler.step(3);
  EXPECT_EQ(scheduler.get_last_lr(), (List{0.5, 0.0625}));
  EXPECT_EQ(scheduler.last_epoch(), 3);
}

TEST(ReduceLROnPlateau, AStateResumes) {
  const ReduceLROnPlateauOptions options{.factor = 0.5, .patience = 1, .cooldown = 2};
  const List metrics{3, 2, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4, 4};
  const List whole = rates_of(options, metrics);
  for (std::size_t cut = 0; cut < metrics.size(); ++cut) {
    SGD optimizer = optimizer_of({1});
    Value state;
    for (const bool first : {true, false}) {
      ReduceLROnPlateau scheduler(optimizer, options);
      if (!first) scheduler.load_state_dict(state);
      for (std::size_t i = first ? 0 : cut; i < (first ? cut : metrics.size()); ++i)
        scheduler.step(metrics[i]);
      state = scheduler.state_dict();
    }
    EXPECT_EQ(optimizer.lr(), whole.back()) << cut;
  }
}

TEST(ReduceLROnPlateau, BadInputChangesNothing) {
  SGD optimizer = optimizer_of({1, 1});
  using O = ReduceLROnPlateauOptions;
  for (const O& bad :
       {O{.factor = 1}, O{.factor = -0.1}, O{.factor = kNan}, O{.patience = -1}, O{.threshold = -1},
        O{.cooldown = -1}, O{.min_lr = -1}, O{.min_lr = {0, 0, 0}}, O{.min_lr = kNan}, O{.eps = -1}})
    EXPECT_THROW(ReduceLROnPlateau(optimizer, bad), ValueError);
  ReduceLROnPlateau scheduler(optimizer, {.patience = 0});
  scheduler.step(1);
  const Value good = scheduler.state_dict();
  EXPECT_THROW(scheduler.step(kNan), ValueError);
  EXPECT_THROW(scheduler.step(Tensor()), ValueError);
  EXPECT_THROW(scheduler.step(ones({2})), ShapeError);
  const auto with = [&](const char* key, Value value) { return Value(good).set(key, std::move(value)); };
  EXPECT_THROW(scheduler.load_state_dict(with("scheduler", "StepLR")), StateError);
  EXPECT_THROW(scheduler.load_state_dict(with("num_groups", 1)), StateError);
  EXPECT_THROW(scheduler.load_state_dict(with("best", "nan")), ValueError);
  for (const char* count : {"num_bad_epochs", "cooldown_counter", "last_epoch"}) {
    for (const std::int64_t bad : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
      EXPECT_THROW(scheduler.load_state_dict(with(count, bad)), ValueError) << count << " " << bad;
  }
  EXPECT_THROW(scheduler.load_state_dict(Value::Map{}), ValueError);
  EXPECT_EQ(scheduler.state_dict(), good);
  EXPECT_EQ(optimizer.lr(), 1);
}

}  // namespace
}  // namespace mezzo::optim
