// GradScaler in normal use: scaling, the course of the scale, bounds, counters, options and the state dict.
// Letters and numbers name the statements of PyTorch's behaviour that a test pins.
#include "mezzo/amp/grad_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "amp/scaler_support.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/memory/allocator.h"

namespace mezzo::amp {
namespace {

TEST(GradScaler, MessagesNameNumbersInShort) {
  try {
    GradScaler scaler({.init_scale = 1e300});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(), "GradScaler: expected a positive, finite init_scale, got 1e+300; use 65536");
  }
}

TEST(GradScaler, HasPyTorchsDefaults) {  // G-1
  const GradScaler scaler;
  EXPECT_EQ(scaler.get_scale(), 65536);
  EXPECT_EQ(scaler.get_growth_factor(), 2);
  EXPECT_EQ(scaler.get_backoff_factor(), 0.5);
  EXPECT_EQ(scaler.get_growth_interval(), 2000);
  EXPECT_TRUE(scaler.is_enabled());
  EXPECT_EQ(scaler.growth_tracker(), 0);
}

TEST(GradScaler, MultipliesALossByTheScaleWithHistory) {  // G-4, G-11
  GradScaler scaler({.init_scale = 8});
  EXPECT_EQ(scaler.get_scale(), 8) << "before the first loss";
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor scaled = scaler.scale(sum(x * x));
  EXPECT_EQ(scaled.item(), 5 * 8);
  scaled.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2 * 8, 4 * 8}));
  EXPECT_EQ(scaler.scale_tensor().dtype(), DType::f32);
  EXPECT_EQ(scaler.scale_tensor().dim(), 0);
  EXPECT_EQ(scaler.scale_tensor().item(), 8);
}

TEST(GradScaler, ScalesAListOfLosses) {  // G-11, G-73
  GradScaler scaler({.init_scale = 4});
  const std::vector<Tensor> losses{tensor(1.0), tensor({2.0, 3.0})};
  const std::vector<Tensor> scaled = scaler.scale(losses);
  ASSERT_EQ(scaled.size(), 2U);
  EXPECT_EQ(scaled[0].item(), 4);
  EXPECT_EQ(scaled[1].to_vector<double>(), (std::vector<double>{8, 12}));
}

TEST(GradScaler, AScalarHalfLossBecomesF32AndAHalfTensorStaysHalfAndOverflows) {  // G-12
  GradScaler scaler;
  const Tensor loss = scaler.scale(tensor(1.5, {.dtype = DType::f16}));
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_EQ(loss.item(), 1.5 * 65536);
  const Tensor losses = scaler.scale(tensor({0.5, 1.0}, {.dtype = DType::f16}));
  EXPECT_EQ(losses.dtype(), DType::f16);
  EXPECT_EQ(losses.to_vector<double>(), (std::vector<double>{32768, kInf}));
}

TEST(GradScaler, ADisabledOneIsTransparent) {  // G-10, G-20, G-30, G-50, G-60 to G-62
  GradScaler scaler({.init_scale = -1, .growth_factor = 0, .backoff_factor = 7, .enabled = false});
  OneParameter one;
  EXPECT_TRUE(scaler.scale(one.parameter).is_same(one.parameter));
  one.parameter.set_grad(tensor({1.0, kInf}));
  scaler.unscale_(one.optimizer);
  scaler.unscale_(one.optimizer);
  EXPECT_EQ(one.parameter.grad().to_vector<double>(), (std::vector<double>{1, kInf}));
  const std::uint64_t reads = host_reads();
  EXPECT_FALSE(scaler.step(one.optimizer).skipped());
  EXPECT_EQ(host_reads(), reads) << "there is nothing to read";
  EXPECT_EQ(one.parameter.to_vector<double>(), (std::vector<double>{0, -kInf})) << "the step was made";
  scaler.update();
  scaler.update(3.0);
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.scale_tensor().item(), 1);
  EXPECT_EQ(scaler.inv_scale_tensor().item(), 1);
  EXPECT_EQ(scaler.state_dict().size(), 0U);
  scaler.load_state_dict(Value(Value::Map{}));
  EXPECT_EQ(scaler.report(), "GradScaler: disabled");
}

TEST(GradScaler, InverseIsTheRoundedF64Quotient) {  // V-3, G-22
  const std::vector<std::pair<double, double>> golden{{65536, 1.52587890625e-05},
                                                      {3, 0.3333333432674408},
                                                      {7, 0.1428571492433548},
                                                      {10, 0.10000000149011612}};
  for (const auto& [scale, inverse] : golden) {
    GradScaler scaler({.init_scale = scale});
    static_cast<void>(scaler.scale(zeros({})));
    EXPECT_EQ(scaler.inv_scale_tensor().item(), inverse) << scale;
    scaler.update(scale + 1);
    EXPECT_EQ(scaler.inv_scale_tensor().item(), static_cast<double>(static_cast<float>(1 / (scale + 1))));
  }
}

TEST(GradScaler, GrowsAndBacksOffAsTheGoldenTableSays) {  // V-4, G-53
  GradScaler scaler({.init_scale = 4, .growth_factor = 2, .backoff_factor = 0.25, .growth_interval = 2});
  OneParameter one;
  EXPECT_FALSE(one.iterate(scaler, false));
  EXPECT_EQ(std::pair(scaler.get_scale(), scaler.growth_tracker()), std::pair(4.0, std::int64_t{1}));
  EXPECT_FALSE(one.iterate(scaler, false));
  EXPECT_EQ(std::pair(scaler.get_scale(), scaler.growth_tracker()), std::pair(8.0, std::int64_t{0}));
  EXPECT_TRUE(one.iterate(scaler, true));
  EXPECT_EQ(std::pair(scaler.get_scale(), scaler.growth_tracker()), std::pair(2.0, std::int64_t{0}));
}

TEST(GradScaler, ThreeSkipsFromTheDefaultGive8192) {  // V-5
  GradScaler scaler;
  OneParameter one;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(one.iterate(scaler, true));
  EXPECT_EQ(scaler.get_scale(), 8192);
  EXPECT_EQ(one.parameter.to_vector<double>(), (std::vector<double>{1, 2})) << "every step was skipped";
}

TEST(GradScaler, WithHysteresisTheSecondOverflowInARowLowersTheScale) {
  // Apex's rule, worked out by hand: o is an overflow, . a finite step.
  const std::string steps = "o.oo.ooo.o";
  const std::vector<double> scales{64, 64, 64, 32, 32, 32, 16, 8, 8, 8};
  GradScaler scaler({.init_scale = 64, .hysteresis = 2});
  OneParameter one;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(one.iterate(scaler, steps[i] == 'o'), steps[i] == 'o') << "skipped all the same";
    EXPECT_EQ(scaler.get_scale(), scales[i]) << i;
    if (steps[i] == 'o') {
      EXPECT_EQ(scaler.growth_tracker(), 0);
    }
  }
  EXPECT_EQ(scaler.steps_skipped(), 7);
  // The overflow before counts after loading, and is forgotten by a scaler with torch's rule.
  GradScaler loaded({.hysteresis = 2}), plain;
  loaded.load_state_dict(scaler.state_dict());
  EXPECT_EQ(loaded.state_dict(), scaler.state_dict());
  EXPECT_TRUE(one.iterate(loaded, true));
  EXPECT_EQ(loaded.get_scale(), 4);
  const Value of_torch = plain.state_dict();
  EXPECT_FALSE(of_torch.find("hysteresis"));
  loaded.load_state_dict(plain.state_dict());
  EXPECT_EQ(loaded.options().hysteresis, 2) << "a state without it changes nothing";
}

TEST(GradScaler, DoesNotGrowBeyondF32) {  // V-6, G-56
  for (const double max_scale : {GradScalerOptions{}.max_scale, kInf}) {
    GradScaler scaler(
        {.init_scale = 1e38, .growth_factor = 16, .growth_interval = 1, .max_scale = max_scale});
    OneParameter one;
    EXPECT_FALSE(one.iterate(scaler, false));
    EXPECT_EQ(scaler.get_scale(), static_cast<double>(1e38F));
    EXPECT_EQ(scaler.growth_tracker(), 0);
  }
}

TEST(GradScaler, AnOverflowTakesTheTrackerBackToZero) {  // G-53
  GradScaler scaler({.init_scale = 16, .growth_interval = 3});
  OneParameter one;
  for (const bool overflow : {false, false, true, false, false}) one.iterate(scaler, overflow);
  EXPECT_EQ(scaler.get_scale(), 8) << "two good updates before it and two after do not make three";
  EXPECT_EQ(scaler.growth_tracker(), 2);
  one.iterate(scaler, false);
  EXPECT_EQ(scaler.get_scale(), 16);
}

TEST(GradScaler, FactorsAreDoublesAndTheProductIsRoundedOnce) {  // G-54
  GradScaler scaler({.init_scale = 1000, .growth_factor = 1.1, .backoff_factor = 0.3, .growth_interval = 1});
  OneParameter one;
  auto scale = 1000.0F;
  for (const bool overflow : {false, false, true, false, true, true, false}) {
    one.iterate(scaler, overflow);
    scale = static_cast<float>(static_cast<double>(scale) * (overflow ? 0.3 : 1.1));
    EXPECT_EQ(scaler.get_scale(), static_cast<double>(scale));
  }
}

TEST(GradScaler, AnIntervalBelowTheTrackerGrowsAtTheNextGoodUpdate) {  // instead of G-55
  GradScaler scaler({.init_scale = 4, .growth_interval = 10});
  OneParameter one;
  for (int i = 0; i < 5; ++i) one.iterate(scaler, false);
  scaler.set_growth_interval(3);
  one.iterate(scaler, false);
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_EQ(scaler.growth_tracker(), 0);
}

TEST(GradScaler, StaysBelowItsMaximum) {
  GradScaler scaler({.init_scale = 8, .growth_interval = 1, .max_scale = 20});
  OneParameter one;
  for (int i = 0; i < 3; ++i) one.iterate(scaler, false);
  EXPECT_EQ(scaler.get_scale(), 16);
}

TEST(GradScaler, StopsAtItsFloorAndSaysSo) {
  // 0.1 is not an f32: the floor is the f32 nearest to it.
  for (const double floor : {1.0, 0.1}) {
    GradScaler scaler({.init_scale = 3 * floor, .min_scale = floor});
    OneParameter one;
    const auto reached = static_cast<double>(static_cast<float>(floor));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(one.iterate(scaler, true));
      EXPECT_FALSE(scaler.at_floor()) << "the scale was above its floor when it overflowed";
    }
    EXPECT_EQ(scaler.get_scale(), reached);
    EXPECT_EQ(scaler.report().find("floor"), std::string::npos);
    EXPECT_TRUE(one.iterate(scaler, true));
    EXPECT_EQ(scaler.get_scale(), reached);
    EXPECT_TRUE(scaler.at_floor());
    EXPECT_NE(scaler.report().find("floor"), std::string::npos) << scaler.report();
    EXPECT_NE(scaler.report().find("first_nonfinite"), std::string::npos) << scaler.report();
    one.iterate(scaler, false);
    EXPECT_FALSE(scaler.at_floor()) << "a good step clears it";
  }
}

TEST(GradScaler, AScaleThatStartsBelowTheFloorStays) {
  GradScaler scaler({.init_scale = 2, .min_scale = 4});
  OneParameter one;
  EXPECT_TRUE(one.iterate(scaler, true));
  EXPECT_EQ(scaler.get_scale(), 2);
  EXPECT_TRUE(scaler.at_floor());
}

TEST(GradScaler, TheDefaultFloorKeepsTheInverseFinite) {  // instead of G-57
  GradScaler scaler;
  OneParameter one;
  for (int i = 0; i < 200; ++i) one.iterate(scaler, true);
  EXPECT_EQ(scaler.get_scale(), 0x1p-24);
  EXPECT_EQ(scaler.inv_scale_tensor().item(), 0x1p24);
  EXPECT_EQ(scaler.steps_skipped(), 200);
}

TEST(GradScaler, UpdateWithAScaleSetsItAndLeavesTheTracker) {  // G-51
  GradScaler scaler({.init_scale = 4, .growth_interval = 3});
  OneParameter one;
  one.iterate(scaler, false);
  scaler.update(100.0);
  EXPECT_EQ(scaler.get_scale(), 100);
  EXPECT_EQ(scaler.growth_tracker(), 1);
  const Tensor given = tensor({24.0});
  scaler.update(given);
  given.fill_(5.0);
  EXPECT_EQ(scaler.get_scale(), 24) << "later writes to the tensor do not show";
  EXPECT_EQ(scaler.inv_scale_tensor().item(), static_cast<double>(static_cast<float>(1.0 / 24)));
  scaler.update(tensor(7));
  EXPECT_EQ(scaler.get_scale(), 7) << "an integer tensor is converted";
  EXPECT_EQ(scaler.growth_tracker(), 1);
}

TEST(GradScaler, UpdateWithAScaleEndsTheIterationAndCountsIt) {
  GradScaler scaler({.init_scale = 4});
  OneParameter one;
  for (const bool overflow : {true, false}) {
    one.backward(scaler, overflow ? kNan : 1);
    EXPECT_EQ(scaler.step(one.optimizer).skipped(), overflow);
    scaler.update(16.0);
  }
  EXPECT_EQ(scaler.steps_skipped(), 1);
  EXPECT_EQ(scaler.steps_ok(), 1);
  scaler.update(8.0);
  EXPECT_EQ(scaler.steps_ok(), 1) << "no step, no count";
  EXPECT_FALSE(one.iterate(scaler, false)) << "a new iteration has begun";
}

TEST(GradScaler, AnIterationCountsOnceHoweverManyOptimizersOverflow) {  // G-59, G-73
  GradScaler scaler({.init_scale = 64});
  OneParameter a, b, c;
  a.backward(scaler, kInf);
  b.backward(scaler, kNan);
  c.backward(scaler, 64);
  EXPECT_TRUE(scaler.step(a.optimizer).skipped());
  EXPECT_TRUE(scaler.step(b.optimizer).skipped());
  EXPECT_FALSE(scaler.step(c.optimizer).skipped()) << "one may step while another skips";
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 32);
  EXPECT_EQ(scaler.steps_skipped(), 1);
  EXPECT_EQ(scaler.steps_ok(), 0);
  EXPECT_EQ(a.parameter.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(c.parameter.to_vector<double>(), (std::vector<double>{0, 2 - 1.0 / 64}));
}

TEST(GradScaler, AStepsResultCanBeAskedLaterAndCostsOneHostRead) {
  GradScaler scaler;
  OneParameter one;
  one.backward(scaler, kInf);
  const StepResult skipped = scaler.step(one.optimizer);
  scaler.update();
  one.backward(scaler);
  const std::uint64_t before = host_reads();
  const StepResult stepped = scaler.step(one.optimizer);
  scaler.update();
  EXPECT_EQ(host_reads(), before);
  EXPECT_TRUE(skipped.skipped());
  EXPECT_FALSE(stepped.skipped());
  EXPECT_EQ(host_reads(), before + 2);
  EXPECT_FALSE(StepResult().skipped());
}

TEST(GradScaler, OptionsChangeFromTheNextUpdateOn) {  // G-60
  GradScaler scaler({.init_scale = 16, .growth_interval = 1});
  OneParameter one;
  scaler.set_growth_factor(4);
  scaler.set_backoff_factor(0.125);
  one.iterate(scaler, false);
  EXPECT_EQ(scaler.get_scale(), 64);
  one.iterate(scaler, true);
  EXPECT_EQ(scaler.get_scale(), 8);
  GradScalerOptions options = scaler.options();
  options.min_scale = 8;
  scaler.set_options(options);
  one.iterate(scaler, true);
  EXPECT_EQ(scaler.get_scale(), 8);
}

TEST(GradScaler, ValuesThatMakeNoSenseAreRefusedWhenEnabled) {  // G-2
  const std::vector<GradScalerOptions> bad{{.growth_factor = 1},   {.growth_factor = kNan},
                                           {.backoff_factor = 1},  {.backoff_factor = 0},
                                           {.backoff_factor = -1}, {.growth_interval = 0},
                                           {.hysteresis = 0},      {.init_scale = 0},
                                           {.init_scale = -2},     {.init_scale = kInf},
                                           {.init_scale = 1e39},   {.init_scale = kNan},
                                           {.min_scale = -1},      {.min_scale = 5, .max_scale = 4},
                                           {.max_scale = kNan}};
  GradScaler good;
  for (GradScalerOptions options : bad) {
    Refusal<ValueError>([&] { GradScaler{options}; }).names({"GradScaler: expected ", "got "});
    if (options.init_scale == GradScalerOptions{}.init_scale) {
      EXPECT_THROW(good.set_options(options), ValueError);
    }
    options.enabled = false;
    GradScaler off{options};
    EXPECT_EQ(off.scale(tensor(3.0F)).item(), 3) << "options of a disabled one do not count";
    EXPECT_EQ(off.get_scale(), 1);
  }
  EXPECT_THROW(good.set_options({.init_scale = 2}), ValueError);
  EXPECT_THROW(good.set_options({.enabled = false}), ValueError);
  EXPECT_EQ(good.get_growth_interval(), 2000) << "a refused change changes nothing";
}

TEST(GradScaler, StateDictHoldsPyTorchsKeysAndOurs) {  // G-61
  GradScaler scaler({.init_scale = 4, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 5});
  OneParameter one;
  one.iterate(scaler, true);
  one.iterate(scaler, false);
  one.iterate(scaler, false);
  EXPECT_EQ(scaler.state_dict(), Value(Value::Map{{"scale", 1.0},
                                                  {"growth_factor", 3.0},
                                                  {"backoff_factor", 0.25},
                                                  {"growth_interval", 5},
                                                  {"_growth_tracker", 2},
                                                  {"min_scale", 0x1p-24},
                                                  {"max_scale", 0x1.fffffep127},
                                                  {"steps_ok", 2},
                                                  {"steps_skipped", 1}}));
}

TEST(GradScaler, StateIsRestoredBeforeAndAfterTheFirstLoss) {  // G-62
  GradScaler source({.init_scale = 4, .growth_factor = 3, .growth_interval = 5});
  OneParameter one;
  for (const bool overflow : {false, true, false, false}) one.iterate(source, overflow);
  const Value state = source.state_dict();
  GradScaler fresh, used;
  one.iterate(used, true);
  for (GradScaler* scaler : {&fresh, &used}) {
    scaler->load_state_dict(state);
    EXPECT_EQ(scaler->state_dict(), state);
    static_cast<void>(scaler->scale(zeros({})));
    EXPECT_EQ(scaler->scale_tensor().item(), 2);
    EXPECT_EQ(scaler->inv_scale_tensor().item(), 0.5);
  }
  for (int i = 0; i < 3; ++i) one.iterate(fresh, false);
  EXPECT_EQ(fresh.get_scale(), 6) << "the tracker went on from 2";
}

TEST(GradScaler, APyTorchStateDictWillDo) {  // G-61
  GradScaler scaler({.min_scale = 2});
  scaler.load_state_dict(Value(Value::Map{{"scale", 512.0},
                                          {"growth_factor", 2.0},
                                          {"backoff_factor", 0.5},
                                          {"growth_interval", 100},
                                          {"_growth_tracker", 42}}));
  EXPECT_EQ(scaler.get_scale(), 512);
  EXPECT_EQ(scaler.growth_tracker(), 42);
  EXPECT_EQ(scaler.get_growth_interval(), 100);
  EXPECT_EQ(scaler.options().min_scale, 2);
}

TEST(GradScaler, ATrackerStopsAtItsLargestNumber) {
  GradScaler scaler({.growth_interval = std::int64_t{1} << 40});
  OneParameter one;
  one.iterate(scaler, false);
  Value state = scaler.state_dict();
  scaler.load_state_dict(state.set("_growth_tracker", 2147483646));
  for (int i = 0; i < 3; ++i) one.iterate(scaler, false);
  EXPECT_EQ(scaler.growth_tracker(), 2147483647);
  EXPECT_EQ(scaler.get_scale(), 65536);
  one.iterate(scaler, true);
  EXPECT_EQ(scaler.growth_tracker(), 0);
  EXPECT_THROW(scaler.load_state_dict(state.set("_growth_tracker", 2147483648)), ValueError);
}

TEST(GradScaler, BooksOfOptimizersThatAreGoneDoNotPileUp) {
  GradScaler scaler;
  std::int64_t bytes = 0;
  for (int i = 0; i < 20; ++i) {
    OneParameter one;
    one.iterate(scaler, false);
    if (i == 1) bytes = memory_stats(Device::cpu()).current;
  }
  OneParameter last;
  last.iterate(scaler, false);
  EXPECT_LE(memory_stats(Device::cpu()).current, bytes);
}

TEST(GradScaler, MovesWithItsState) {
  GradScaler scaler({.init_scale = 4});
  OneParameter one;
  one.backward(scaler);
  scaler.unscale_(one.optimizer);
  GradScaler moved = std::move(scaler);
  EXPECT_FALSE(moved.step(one.optimizer).skipped());
  moved.update();
  EXPECT_EQ(moved.steps_ok(), 1);
}

}  // namespace
}  // namespace mezzo::amp
