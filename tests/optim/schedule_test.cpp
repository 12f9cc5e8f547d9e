// What schedules say: closed formulas written out here, long runs of PyTorch 2.15, and every refusal.
#include "mezzo/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "mezzo/core/error.h"
#include "mezzo/optim/schedules.h"

namespace mezzo::optim {
namespace {

constexpr double kBase = 0.3;
constexpr double kPi = std::numbers::pi;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Formula = std::function<double(double)>;

void expect_formula(const Schedule& schedule, const Formula& formula, std::int64_t steps = 40) {
  for (std::int64_t t = 0; t < steps; ++t) {
    const double want = formula(static_cast<double>(t));
    EXPECT_NEAR(schedule.lr(t, kBase), want, 1e-12 * std::abs(want) + 1e-15) << schedule.name() << " " << t;
  }
}

double cosine(double from, double to, double p) { return to + (from - to) * (1 + std::cos(kPi * p)) / 2; }

TEST(Schedule, FollowsItsFormula) {
  expect_formula(ConstantLROptions{.factor = 0.25, .total_iters = 7},
                 [](double t) { return t < 7 ? kBase * 0.25 : kBase; });
  expect_formula(StepLROptions{.step_size = 3, .gamma = 0.5},
                 [](double t) { return kBase * std::pow(0.5, std::floor(t / 3)); });
  expect_formula(MultiStepLROptions{.milestones = {0, 4, 4, 9}, .gamma = 0.5}, [](double t) {
    return kBase * (t < 4 ? 0.5 : t < 9 ? 0.125 : 0.0625);
  });
  expect_formula(ExponentialLROptions{.gamma = 0.9}, [](double t) { return kBase * std::pow(0.9, t); });
  expect_formula(CosineAnnealingLROptions{.T_max = 12, .eta_min = 0.01},
                 [](double t) { return cosine(kBase, 0.01, t / 12); });
  expect_formula(LinearLROptions{.start_factor = 0.2, .end_factor = 0.8, .total_iters = 10},
                 [](double t) { return kBase * (0.2 + 0.6 * std::min(1.0, t / 10)); });
  expect_formula(PolynomialLROptions{.total_iters = 9, .power = 1.5},
                 [](double t) { return kBase * std::pow(1 - std::min(t, 9.0) / 9, 1.5); });
  for (const std::int64_t warmup : {1, 2, 8}) {
    expect_formula(LinearWarmupOptions{.warmup_steps = warmup},
                   [=](double t) { return kBase * std::min(1.0, (t + 1) / static_cast<double>(warmup)); });
  }
}

TEST(Schedule, RestartsBeginAnew) {
  const Schedule equal = CosineAnnealingWarmRestartsOptions{.T_0 = 6, .eta_min = 0.02};
  const Schedule longer = CosineAnnealingWarmRestartsOptions{.T_0 = 3, .T_mult = 2, .eta_min = 0.02};
  expect_formula(equal, [](double t) { return cosine(kBase, 0.02, std::fmod(t, 6) / 6); });
  expect_formula(longer, [](double t) {
    double begin = 0, length = 3;
    for (; t >= begin + length; length *= 2) begin += length;
    return cosine(kBase, 0.02, (t - begin) / length);
  });
  EXPECT_GE(longer.lr(std::int64_t{1} << 60, kBase), 0.02);
}

TEST(Schedule, WarmsUpAndDecays) {
  for (const std::int64_t w : {0, 4}) {
    const auto up = [=](double t) { return kBase * (t + 1) / static_cast<double>(w); };
    expect_formula(WarmupCosineOptions{.warmup_steps = w, .total_steps = 20, .min_ratio = 0.1},
                   [=](double t) {
                     const double p = std::min(1.0, (t - w) / (20.0 - w));
                     return t < w ? up(t) : cosine(kBase, 0.1 * kBase, p);
                   });
    const std::pair<DecayForm, Formula> forms[] = {
        {DecayForm::linear, [](double p) { return 1 - p; }},
        {DecayForm::cosine, [](double p) { return (1 + std::cos(kPi * p)) / 2; }},
        {DecayForm::one_minus_sqrt, [](double p) { return 1 - std::sqrt(p); }},
    };
    for (const auto& [form, factor] : forms) {
      const WarmupStableDecayOptions options{
          .warmup_steps = w, .stable_steps = 11, .decay_steps = 15, .decay = form, .min_ratio = 0.05};
      expect_formula(options, [&, f = factor](double t) {
        const double p = std::clamp((t - w - 11) / 15, 0.0, 1.0);
        return t < w ? up(t) : kBase * (0.05 + 0.95 * f(p));
      });
    }
  }
}

// The rates of PyTorch 2.15 at these steps, base 0.3: its schedulers stepped a thousand times, which for most
// means a thousand multiplications.
constexpr std::int64_t kSteps[] = {0, 1, 7, 100, 333, 500, 700, 999, 1000};

void expect_torch(const Schedule& schedule, const std::vector<double>& lr,
                  const std::vector<double>& momentum = {}) {
  for (std::size_t i = 0; i < std::size(kSteps); ++i) {
    const kernels::Rates got = schedule.rates(kSteps[i], {kBase, 0});
    EXPECT_NEAR(got.lr, lr[i], 1e-9 * lr[i] + 1e-12) << schedule.name() << " at " << kSteps[i];
    if (momentum.empty()) continue;
    EXPECT_NEAR(got.momentum, momentum[i], 1e-9) << schedule.name() << " at " << kSteps[i];
  }
}

TEST(Schedule, AgreesWithTorchOverAThousandSteps) {
  expect_torch(StepLROptions{.step_size = 90, .gamma = 0.7},
               {0.3, 0.3, 0.3, 0.21, 0.10289999999999999, 0.05042099999999999, 0.024706289999999992,
                0.005931980228999997, 0.005931980228999997});
  expect_torch(MultiStepLROptions{.milestones = {7, 7, 333, 999}, .gamma = 0.3},
               {0.3, 0.3, 0.027, 0.027, 0.0081, 0.0081, 0.0081, 0.00243, 0.00243});
  expect_torch(ExponentialLROptions{.gamma = 0.995},
               {0.3, 0.2985, 0.28965619404284526, 0.18173113094721824, 0.05652064939590151,
                0.024471558432083467, 0.008980029776481968, 0.0020062216820598854, 0.001996190573649586});
  expect_torch(CosineAnnealingLROptions{.T_max = 300, .eta_min = 1e-3},
               {0.3, 0.29999180282014404, 0.2995985143450564, 0.22525000000000006, 0.009838325041343233,
                0.22524999999999845, 0.22524999999999865, 0.07439830834531895, 0.07574999999999937});
  expect_torch(CosineAnnealingWarmRestartsOptions{.T_0 = 50, .T_mult = 2, .eta_min = 1e-3},
               {0.3, 0.2997049959000266, 0.2857716443436699, 0.1505, 0.006298665940559204,
                0.20771117313858092, 0.012380009889562664, 0.23404525159822706, 0.23355774983643054});
  expect_torch(LinearLROptions{.start_factor = 0.1, .end_factor = 0.8, .total_iters = 600},
               {0.03, 0.03035, 0.03245, 0.065, 0.14655, 0.205, 0.24, 0.24, 0.24});
  expect_torch(PolynomialLROptions{.total_iters = 800, .power = 0.9},
               {0.3, 0.29966247889657566, 0.29763646307482017, 0.2660287062771623, 0.18480999655503247,
                0.1240936033974828, 0.04616791550043442, 0.0, 0.0});
  expect_torch(SequentialLROptions{.schedulers = {LinearLROptions{.start_factor = 0.01, .total_iters = 100},
                                                  CosineAnnealingLROptions{.T_max = 900}},
                                   .milestones = {100}},
               {0.003, 0.00597, 0.02379, 0.3, 0.2530631266206631, 0.17604722665003925, 0.0749999999999999,
                9.13851331441061e-07, 0.0});
  expect_torch(ChainedSchedulerOptions{.schedulers = {ConstantLROptions{.factor = 0.5, .total_iters = 500},
                                                      ExponentialLROptions{.gamma = 0.999}}},
               {0.15, 0.14985, 0.14895314475524685, 0.1357188220670564, 0.10749761733676685,
                0.18191368345835565, 0.14892342402932995, 0.11041904647776721, 0.11030862743128944});
}

TEST(Schedule, OneCycleAgreesWithTorch) {
  expect_torch(
      OneCycleLROptions{
          .max_lr = 2, .total_steps = 1001, .anneal_strategy = AnnealStrategy::linear, .three_phase = true},
      {0.08, 0.08641496825927164, 0.12490477781490145, 0.7214968259271632, 1.783815569662546,
       0.7125158703641832, 0.0597927533632287, 0.00020728251121075736, 7.999999999994123e-06},
      {0.95, 0.9496658870698296, 0.9476612094888072, 0.9165887069829602, 0.8612596057467423,
       0.9170564650851988, 0.95, 0.95, 0.95});
  expect_torch(OneCycleLROptions{.max_lr = 2, .epochs = 7, .steps_per_epoch = 143, .pct_start = 0.4},
               {0.08000000000000007, 0.08002969768678492, 0.08145482655523084, 0.3619788826741066,
                1.872012935458279, 1.8647152952726578, 0.9984347798212404, 2.1680323477419732e-05, 8e-06},
               {0.95, 0.9499984532454799, 0.9499242277835817, 0.9353135998607236, 0.8566659929448813,
                0.8567642622934163, 0.9000784613227832, 0.94999931598109, 0.95});
}

TEST(Schedule, OneCycleHasRatesPerGroupAndStaysAtItsEnd) {
  const Schedule cycle = OneCycleLROptions{.max_lr = {1, 2},
                                           .total_steps = 10,
                                           .pct_start = 0.5,
                                           .anneal_strategy = AnnealStrategy::linear,
                                           .base_momentum = {0.5, 0.6},
                                           .div_factor = 4,
                                           .final_div_factor = 10};
  EXPECT_TRUE(cycle.drives_momentum());
  EXPECT_EQ(cycle.rates(0, {}, 1).lr, 0.5);
  EXPECT_EQ(cycle.rates(0, {}, 1).momentum, 0.95);
  EXPECT_EQ(cycle.rates(4, {}, 0).lr, 1);
  EXPECT_EQ(cycle.rates(4, {}, 1).momentum, 0.6);
  EXPECT_DOUBLE_EQ(cycle.lr(9, kBase), 0.025);
  EXPECT_EQ(cycle.lr(1000, kBase), cycle.lr(9, kBase));
  EXPECT_TRUE(cycle.covers(10));  // as many calls of step() as total_steps
  EXPECT_FALSE(cycle.covers(11));
  EXPECT_THROW(cycle.require_groups(3), ValueError);
  EXPECT_THROW(static_cast<void>(cycle.lr(0, kBase, 2)), IndexError);
  const Schedule alone = OneCycleLROptions{.max_lr = 1, .total_steps = 10, .cycle_momentum = false};
  EXPECT_FALSE(alone.drives_momentum());
  EXPECT_EQ(alone.rates(4, {kBase, 0.7}).momentum, 0.7);
}

TEST(Schedule, ChainsAndSequencesNest) {
  const auto twice = [](std::int64_t) { return 2.0; };
  const Schedule inner = SequentialLROptions{
      .schedulers = {ConstantLROptions{.factor = 0.5, .total_iters = 100},
                     ChainedSchedulerOptions{.schedulers = {ExponentialLROptions{.gamma = 0.5},
                                                            LambdaLROptions{.lr_lambda = twice}}},
                     MultiStepLROptions{.milestones = {2}, .gamma = 0.1}},
      .milestones = {3, 5}};
  const Schedule outer = SequentialLROptions{
      .schedulers = {LinearWarmupOptions{.warmup_steps = 4}, inner, StepLROptions{.step_size = 1}},
      .milestones = {4, 13}};
  EXPECT_EQ(outer.name(),
            "SequentialLR(LinearWarmup, SequentialLR(ConstantLR, ChainedScheduler(ExponentialLR, LambdaLR), "
            "MultiStepLR), StepLR)");
  const double factors[] = {0.25, 0.5, 0.75, 1,                   // warm-up
                            0.5,  0.5, 0.5,                       // the constant
                            2,    1,                              // twice 0.5^t
                            1,    1,   0.1,  0.1, 1, 0.1, 0.01};  // from its milestone; then by steps
  for (std::size_t t = 0; t < std::size(factors); ++t)
    EXPECT_NEAR(outer.lr(static_cast<std::int64_t>(t), kBase), kBase * factors[t], 1e-15) << t;
  // A chain hands on the rate: the second one anneals what the first has made.
  const Schedule chain =
      ChainedSchedulerOptions{.schedulers = {ConstantLROptions{.factor = 0.5, .total_iters = 100},
                                             CosineAnnealingLROptions{.T_max = 10, .eta_min = 0.1}}};
  expect_formula(chain, [](double t) { return cosine(0.5 * kBase, 0.1, t / 10); });
}

TEST(Schedule, ATableHoldsItsLastValue) {
  const auto root = [](std::int64_t t) { return 1 / std::sqrt(static_cast<double>(t + 1)); };
  const Schedule called = LambdaLROptions{.lr_lambda = {root, [](std::int64_t) { return 0.5; }}};
  const Schedule table = LambdaLROptions{.lr_lambda = root, .tabulate = 5};
  EXPECT_TRUE(called.needs_host());
  EXPECT_FALSE(table.needs_host());
  for (std::int64_t t = 0; t < 9; ++t) {
    EXPECT_EQ(called.lr(t, kBase, 0), kBase * root(t));
    EXPECT_EQ(called.lr(t, kBase, 1), kBase * 0.5);
    EXPECT_EQ(table.lr(t, kBase), kBase * root(std::min<std::int64_t>(t, 4)));
  }
}

template <class... Options>
void expect_refused(const Options&... options) {
  const auto refused = [](const auto& one) {
    try {
      static_cast<void>(Schedule(one));
    } catch (const ValueError& error) {
      EXPECT_FALSE(error.fix().empty()) << error.what();
      return true;
    }
    return false;
  };
  std::size_t number = 0;
  (..., [&] {
    EXPECT_TRUE(refused(options)) << "option list " << number;
    ++number;
  }());
}

TEST(Schedule, BadOptionsAreRefused) {
  expect_refused(ConstantLROptions{.factor = 1.5}, ConstantLROptions{.factor = -0.1},
                 ConstantLROptions{.factor = kNan}, ConstantLROptions{.total_iters = 0});
  expect_refused(StepLROptions{}, StepLROptions{.step_size = -1},
                 StepLROptions{.step_size = 1, .gamma = -0.1});
  expect_refused(MultiStepLROptions{.milestones = {3, 2}}, MultiStepLROptions{.milestones = {-1}},
                 MultiStepLROptions{.milestones = {1}, .gamma = kNan});
  expect_refused(ExponentialLROptions{}, ExponentialLROptions{.gamma = -1});
  expect_refused(CosineAnnealingLROptions{}, CosineAnnealingLROptions{.T_max = 1, .eta_min = -1});
  expect_refused(CosineAnnealingWarmRestartsOptions{},
                 CosineAnnealingWarmRestartsOptions{.T_0 = 1, .T_mult = 0},
                 CosineAnnealingWarmRestartsOptions{.T_0 = 1, .eta_min = kNan});
  expect_refused(LinearLROptions{.start_factor = 0}, LinearLROptions{.start_factor = 1.1},
                 LinearLROptions{.end_factor = -0.1}, LinearLROptions{.total_iters = 0});
  expect_refused(LinearWarmupOptions{}, WarmupCosineOptions{}, WarmupCosineOptions{.warmup_steps = -1},
                 WarmupCosineOptions{.warmup_steps = 4, .total_steps = 4},
                 WarmupCosineOptions{.total_steps = 4, .min_ratio = 2});
  expect_refused(WarmupStableDecayOptions{}, WarmupStableDecayOptions{.stable_steps = -1, .decay_steps = 1},
                 WarmupStableDecayOptions{.decay_steps = 1, .min_ratio = -1});
  expect_refused(PolynomialLROptions{.total_iters = 0}, PolynomialLROptions{.power = -1});
  expect_refused(OneCycleLROptions{.total_steps = 5}, OneCycleLROptions{.max_lr = 1},
                 OneCycleLROptions{.max_lr = 1, .total_steps = -5},
                 OneCycleLROptions{.max_lr = 1, .epochs = 3},
                 OneCycleLROptions{.max_lr = 1, .total_steps = 5, .pct_start = 1.1},
                 OneCycleLROptions{.max_lr = -1, .total_steps = 5},
                 OneCycleLROptions{.max_lr = 1, .total_steps = 5, .max_momentum = 1},
                 OneCycleLROptions{.max_lr = 1, .total_steps = 5, .div_factor = 0},
                 OneCycleLROptions{.max_lr = {1, 2}, .total_steps = 5, .base_momentum = {0, 0, 0}});
  expect_refused(LambdaLROptions{}, LambdaLROptions{.lr_lambda = LrLambda{}},
                 LambdaLROptions{.lr_lambda = [](std::int64_t) { return -1.0; }, .tabulate = 1});
  const Schedule one = ExponentialLROptions{.gamma = 1};
  expect_refused(ChainedSchedulerOptions{}, SequentialLROptions{},
                 SequentialLROptions{.schedulers = {one, one}},
                 SequentialLROptions{.schedulers = {one, one}, .milestones = {0}},
                 SequentialLROptions{.schedulers = {one, one, one}, .milestones = {2, 2}});
}

}  // namespace
}  // namespace mezzo::optim
