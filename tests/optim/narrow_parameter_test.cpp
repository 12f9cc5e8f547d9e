// 16-bit parameters without f32 masters: masters in two halves take the steps of f32 masters, bit for bit,
// and random rounding keeps the mean of what f32 has, with the same bits however a step is run.
#include <cmath>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/memory/allocator.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/averaged_weights.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/muon.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/remap.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"
#include "mezzo/tests/support/message_of.h"
#include "optim/steps.h"

namespace mezzo::optim {
namespace {

using test::message_of;

const Value kSplit = Value::Map{{"master_weights", "split"}};
const Value kRandom = Value::Map{{"stochastic_rounding", true}};
constexpr std::size_t kCount = 1100;  // a tile and a part of one

class EveryNarrowOptimizer : public ::testing::TestWithParam<Algorithm> {};

INSTANTIATE_TEST_SUITE_P(All, EveryNarrowOptimizer, ::testing::ValuesIn(algorithms()),
                         [](const auto& named) { return named.param.name; });

std::vector<Tensor> parameters(DType dtype = DType::bf16) {
  return {parameter_of(values_of(1, kCount), dtype), parameter_of(values_of(2, 37), dtype)};
}

/// The two have the same state, masters included, and the parameters of `split` are their masters, rounded.
void expect_same(const Optimizer& split, const Optimizer& wide) {
  ASSERT_EQ(state_bits(split), state_bits(wide));
  const std::vector<Tensor> parameters = split.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<float> masters = state_of(split, std::to_string(i) + ".master").to_vector<float>();
    const std::vector<float> values = parameters[i].to_vector<float>();
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto bits = std::bit_cast<std::uint32_t>(masters[k]);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[k]), (bits + 0x8000U) & 0xffff0000U) << k;
    }
  }
}

// --- masters in two halves

TEST_P(EveryNarrowOptimizer, SplitMastersTakeTheStepsOfF32Masters) {
  const auto split = GetParam().make(parameters(), kSplit), wide = GetParam().make(parameters(), kMasters);
  for (std::uint64_t step = 1; step < 10; ++step) {
    run_steps(*split, step, step + 1);
    run_steps(*wide, step, step + 1);
    expect_same(*split, *wide);
  }
  EXPECT_TRUE(split->has_master(0));
}

TEST_P(EveryNarrowOptimizer, SplitMastersUnderAScaler) {
  const auto split = GetParam().make(parameters(), kSplit), wide = GetParam().make(parameters(), kMasters);
  for (Optimizer* optimizer : {split.get(), wide.get()}) {
    amp::GradScaler scaler({.init_scale = 1024});
    const std::vector<Tensor> all = optimizer->parameters();
    for (std::uint64_t step = 1; step < 8; ++step) {
      static_cast<void>(scaler.scale(zeros({})));
      give_gradients(all, step, scaler.get_scale());
      if (step == 3) select(all[1].grad(), 0, 5).fill_(std::numeric_limits<double>::infinity());
      if (step % 2 == 0) {
        scaler.unscale_(*optimizer);
        static_cast<void>(clip_grad_norm_(all, 0.5));
      }
      EXPECT_EQ(scaler.step(*optimizer).skipped(), step == 3);
      scaler.update();
    }
  }
  expect_same(*split, *wide);
}

TEST_P(EveryNarrowOptimizer, StatesOfBothKindsOfMastersGoBothWays) {
  for (const bool model_first : {true, false}) {
    for (const bool to_split : {true, false}) {
      const auto source = GetParam().make(parameters(), to_split ? kMasters : kSplit);
      const auto target = GetParam().make(parameters(), to_split ? kSplit : kMasters);
      run_steps(*source, 1, 4);
      run_steps(*target, 50, 52);  // what it holds must not matter
      const auto load_model = [&] {
        const NoGrad no_grad;
        for (std::size_t i = 0; i < 2; ++i) target->parameters()[i].copy_(source->parameters()[i]);
      };
      if (model_first) load_model();
      target->load_state_dict(saved(*source));
      if (!model_first) load_model();
      ASSERT_EQ(state_bits(*target), state_bits(*source));
      run_steps(*source, 4, 7);
      run_steps(*target, 4, 7);
      if (to_split)
        expect_same(*target, *source);
      else
        expect_same(*source, *target);
    }
  }
}

TEST_P(EveryNarrowOptimizer, SplitMastersFollowARemappedParameter) {
  const auto split = GetParam().make(parameters(), kSplit), wide = GetParam().make(parameters(), kMasters);
  for (Optimizer* optimizer : {split.get(), wide.get()}) {
    run_steps(*optimizer, 1, 4);
    const Tensor before = optimizer->parameters()[0];
    const Tensor after = before.detach().clone().requires_grad_();
    {
      const NoGrad no_grad;
      slice(after, 0, 0, 10).fill_(0.75);  // as a surgery that initialises a part anew
    }
    static_cast<void>(remap(*optimizer, {{before, after}}));
    run_steps(*optimizer, 4, 7);
  }
  expect_same(*split, *wide);
}

TEST(SplitMasters, SurviveAveragesInTheParametersPlace) {
  const std::vector<Tensor> all = parameters();
  AdamW split(all, {.lr = 0.01, .master_weights = MasterWeights::split});
  AdamW wide(parameters(), {.lr = 0.01, .master_weights = true});
  EMA average(unnamed(all), {.decay = 0.5});
  for (std::uint64_t step = 1; step < 5; ++step) {
    run_steps(split, step, step + 1);
    run_steps(wide, step, step + 1);
    average.update();
    const auto bits_before = bits(all[0]);
    {
      const auto averaged = average.average_weights();
      EXPECT_EQ(bits(all[0]) != bits_before, step > 1);
    }
    expect_same(split, wide);
  }
}

TEST(SplitMasters, TakeTheStepsOfF32MastersInAnyLayout) {
  const auto make = [](MasterWeights masters) {
    const Tensor start = parameter_of(values_of(5, 6 * 5 * 7), DType::bf16).detach().view({6, 5, 7});
    const std::vector<Tensor> all{transpose(start.clone(), 0, 2).requires_grad_(),
                                  slice(cat({start, start}, 2), 2, 1, 13, 2).requires_grad_()};
    return std::make_unique<AdamW>(all, AdamWOptions{.lr = 0.01, .master_weights = masters});
  };
  const auto split = make(MasterWeights::split), wide = make(true);
  run_steps(*split, 1, 5);
  run_steps(*wide, 1, 5);
  expect_same(*split, *wide);
}

TEST(SplitMasters, NaNAndInfinityShow) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor p = parameter_of({1, 1, 1, 3e38, -0.0}, DType::bf16);
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1, .master_weights = MasterWeights::split});
  p.set_grad(tensor({std::nan(""), inf, -inf, -3e38, 0.0}, {.dtype = DType::bf16}));
  sgd.step();
  for (const Tensor& x : {p.detach(), state_of(sgd, "0.master")}) {
    const std::vector<double> values = x.to_vector<double>();
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ(values[1], -inf);
    EXPECT_EQ(values[2], inf);
    EXPECT_EQ(values[3], inf);
    EXPECT_EQ(values[4], 0);
  }
}

TEST(SplitMasters, OfAParameterThatOthersWriteAreWithinHalfOfItsLastPlace) {
  const Tensor p = parameter_of(values_of(1, kCount), DType::bf16);
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1e-3, .master_weights = MasterWeights::split});
  run_steps(sgd, 1, 3);
  const std::vector<double> written{
      0.0, -0.0, 1.0, -2.5, 3.3895313892515355e38, std::numeric_limits<double>::infinity(), 0x1p-133};
  for (const double value : written) {
    {
      const NoGrad no_grad;
      p.fill_(value);
    }
    const auto bits_of_value = std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0x7fffffffU;
    for (const float master : state_of(sgd, "0.master").to_vector<float>()) {
      const auto got = std::bit_cast<std::uint32_t>(master) & 0x7fffffffU;
      const std::uint32_t distance = got > bits_of_value ? got - bits_of_value : bits_of_value - got;
      ASSERT_LE(distance, 0x8000U) << value;
    }
  }
}

TEST(SplitMasters, TakeTwoBytesAParameter) {
  constexpr std::int64_t kLarge = 1 << 20;
  const auto bytes_of = [](MasterWeights masters) {
    const Tensor p = zeros({kLarge}, {.dtype = DType::bf16}).requires_grad_();
    p.set_grad(ones({kLarge}, {.dtype = DType::bf16}));
    SGD sgd(std::vector<Tensor>{p}, {.lr = 0.1, .master_weights = masters});
    const std::int64_t before = memory_stats(Device::cpu()).current;
    sgd.step();
    return memory_stats(Device::cpu()).current - before;
  };
  EXPECT_NEAR(static_cast<double>(bytes_of(true)) / kLarge, 4, 0.1);
  EXPECT_NEAR(static_cast<double>(bytes_of(MasterWeights::split)) / kLarge, 2, 0.1);
}

TEST(SplitMasters, AreRefusedForF16Parameters) {
  const Tensor half = parameter_of({1}, DType::f16), brain = parameter_of({1}, DType::bf16);
  const AdamOptions options{.master_weights = MasterWeights::split};
  const auto expect_refused = [](const std::string& message) {
    EXPECT_NE(message.find("bf16 parameters for split masters"), std::string::npos) << message;
    EXPECT_NE(message.find("got f16 of w"), std::string::npos) << message;
  };
  expect_refused(message_of<DTypeError>([&] { Adam adam(NamedTensors{{"w", half}}, options); }));
  Adam adam(NamedTensors{{"b", brain}}, options);
  expect_refused(message_of<DTypeError>([&] { adam.add_param_group({{{"w", half}}, options}); }));
  EXPECT_EQ(adam.num_groups(), 1U);
  static_cast<void>(remap(adam, {{brain, half}}));
  half.set_grad(ones({1}, {.dtype = DType::f16}));
  EXPECT_THROW(adam.step(), DTypeError);
  EXPECT_EQ(half.item(), 1);
}

TEST(NarrowParameters, AnOptimizerThatCannotHaveAnOptionSaysWhichCan) {
  const Tensor p = zeros({2, 2}, {.dtype = DType::bf16, .requires_grad = true});
  for (const MuonOptions& options :
       {MuonOptions{.master_weights = MasterWeights::split}, MuonOptions{.stochastic_rounding = true}}) {
    const std::string message = message_of<ValueError>([&] { Muon muon({p}, options); });
    EXPECT_NE(message.find("SGD, Adam, AdamW"), std::string::npos) << message;
  }
  EXPECT_THROW(SGD({p}, {.master_weights = true, .stochastic_rounding = true}), ValueError);
  EXPECT_THROW(static_cast<void>(attrs_from_value<SGDOptions>("SGD", Value::Map{{"master_weights", "half"}})),
               ValueError);
}

TEST(NarrowParameters, OptionsAreSavedAndOldStatesLoad) {
  SGD split(parameters(), {.master_weights = MasterWeights::split});
  OptimizerState state = split.state_dict();
  Value group = state.options.at("param_groups").at(0);
  EXPECT_EQ(group.at("master_weights"), Value("split"));
  EXPECT_EQ(group.at("stochastic_rounding"), Value(false));
  Value::Map old = group.as_map();
  std::erase_if(old, [](const auto& field) { return field.first == "stochastic_rounding"; });
  for (auto& [name, value] : old) {
    if (name == "master_weights") value = Value(true);
  }
  state.options.set("param_groups", Value::List{Value(old)});
  split.load_state_dict(state);
  EXPECT_EQ(split.options().master_weights, MasterWeights(MasterWeights::split)) << "its own kind";
  SGD plain(parameters(), {});
  plain.load_state_dict(state);
  EXPECT_EQ(plain.options().master_weights, MasterWeights(true));
}

// --- rounding at random

/// What one step of SGD at lr 1 makes of `count` parameters of 0 with this gradient.
std::vector<double> rounded(double value, DType dtype, std::int64_t count) {
  const Tensor p = zeros({count}, {.dtype = dtype, .requires_grad = true});
  p.set_grad(full({count}, -value, {.dtype = DType::f32}));
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1, .stochastic_rounding = true});
  sgd.step();
  return p.to_vector<double>();
}

TEST(StochasticRounding, KeepsTheMeanAndPicksANeighbour) {
  constexpr std::int64_t kDraws = 100'000;
  struct Case {
    DType dtype;
    double value, low, high;
  };
  // Normal and subnormal values of both types, and their neighbours.
  const std::vector<Case> cases{
      {DType::bf16, 1 + 0x1p-9, 1, 1 + 0x1p-7},       {DType::bf16, -3.3, -3.296875, -3.3125},
      {DType::bf16, 0x1.4p-133, 0x1p-133, 0x1p-132},  {DType::f16, 1 + 0x1.8p-11, 1, 1 + 0x1p-10},
      {DType::f16, -0x1.9p-24, -0x1p-24, -0x1p-23},   {DType::f16, 0x1p-26, 0, 0x1p-24},
      {DType::f16, 0x1.ffep-15, 0x1.ff8p-15, 0x1p-14}};
  for (const Case& one : cases) {
    const double gap = one.high - one.low, value = static_cast<double>(static_cast<float>(one.value));
    double sum = 0;
    for (const double got : rounded(value, one.dtype, kDraws)) {
      ASSERT_TRUE(got == one.low || got == one.high) << one.value << " became " << got;
      sum += (got - one.low) / gap;
    }
    // Five standard deviations of a mean of so many draws of 0 and 1.
    EXPECT_NEAR(sum / kDraws, (value - one.low) / gap, 5 * 0.5 / std::sqrt(kDraws)) << one.value;
  }
}

TEST(StochasticRounding, LeavesWhatTheTypeHasAsItIs) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double largest = dtype == DType::bf16 ? 0x1.fep127 : 65504, least = info(dtype).eps;
    for (const double value : {0.0, 1.0, -1.5, 1 + least, largest, -largest, inf, -inf,
                               dtype == DType::bf16 ? 0x1p-133 : 0x1p-24, 0x1p-14}) {
      for (const double got : rounded(value, dtype, 1000)) ASSERT_EQ(got, value);
    }
    for (const double got : rounded(std::nan(""), dtype, 100)) ASSERT_TRUE(std::isnan(got));
    // Finite values beyond the largest: of bf16, between it and infinity; of f16, all of f32's.
    for (const double value : {dtype == DType::bf16 ? 0x1.fffp127 : 65519.0, 0x1.fffffep127}) {
      for (const double got : rounded(value, dtype, 1000)) ASSERT_EQ(got, largest);
      for (const double got : rounded(-value, dtype, 1000)) ASSERT_EQ(got, -largest);
    }
  }
}

TEST(StochasticRounding, FollowsF32WherePlainBf16StandsStill) {
  constexpr std::int64_t kMany = 20'000;
  const auto mean_after = [](DType dtype, bool stochastic) {
    const Tensor p = ones({kMany}, {.dtype = dtype, .requires_grad = true});
    AdamW adam(std::vector<Tensor>{p}, {.lr = 1e-5, .weight_decay = 0, .stochastic_rounding = stochastic});
    for (int step = 0; step < 50; ++step) {
      p.set_grad(ones({kMany}, {.dtype = dtype}));
      adam.step();
    }
    return p.detach().to(DType::f64).mean().item();
  };
  const double wide = mean_after(DType::f32, false);
  EXPECT_EQ(mean_after(DType::bf16, false), 1);
  // A step down happens with probability 1e-5 / 2^-8, fifty times: five deviations of the mean of kMany.
  const double deviation = 0x1p-8 * std::sqrt(50 * 1e-5 / 0x1p-8 / kMany);
  EXPECT_NEAR(mean_after(DType::bf16, true), wide, 5 * deviation);
}

TEST_P(EveryNarrowOptimizer, RandomRoundingPicksANeighbourOfTheF32Update) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<Tensor> narrow = parameters(dtype);
    const auto a = GetParam().make(narrow, kRandom);
    for (std::uint64_t step = 1; step < 4; ++step) {
      std::vector<Tensor> wide;
      for (const Tensor& p : narrow) wide.push_back(p.detach().to(DType::f32).requires_grad_());
      const auto b = GetParam().make(wide);
      b->load_state_dict(a->state_dict());
      give_gradients(narrow, step);
      for (std::size_t i = 0; i < wide.size(); ++i) wide[i].set_grad(narrow[i].grad().to(DType::f32));
      a->step();
      b->step();
      std::size_t moved = 0;
      for (std::size_t i = 0; i < wide.size(); ++i) {
        const std::vector<double> got = narrow[i].to_vector<double>(), exact = wide[i].to_vector<double>();
        const std::vector<double> nearest = wide[i].detach().to(dtype).to_vector<double>();
        for (std::size_t k = 0; k < got.size(); ++k) {
          // Less than one last place away, which is at most eps of the value, or f16's least subnormal.
          const double place = std::max(info(dtype).eps * std::abs(exact[k]), 0x1p-24);
          ASSERT_LT(std::abs(got[k] - exact[k]), place);
          moved += got[k] != nearest[k] ? 1 : 0;
        }
      }
      EXPECT_GT(moved, 50U) << "of 1137 elements";
      // The state is f32's.
      for (const auto& [key, tensor] : b->state_dict().tensors)
        ASSERT_EQ(bits(state_of(*a, key)), bits(tensor));
    }
  }
}

TEST_P(EveryNarrowOptimizer, RandomRoundingHasTheSameBitsHoweverAStepIsRun) {
  expect_same_bits_however_run([] { return GetParam().make(parameters(), kRandom); });
}

TEST(StochasticRounding, BitsDoNotDependOnThreadsOrLayout) {
  std::vector<std::vector<std::uint64_t>> results;
  for (const int way : {0, 1, 2}) {
    const test::ThreadGuard guard(way == 0 ? 1 : 8);
    Tensor p = parameter_of(values_of(1, 300 * 701), DType::bf16).detach().view({300, 701});
    if (way == 2) p = transpose(transpose(p, 0, 1).contiguous(), 0, 1);
    p.requires_grad_();
    AdamW adam(std::vector<Tensor>{p}, {.lr = 1e-3, .stochastic_rounding = true});
    run_steps(adam, 1, 4);
    results.push_back(bits(p.detach().contiguous()));
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST(StochasticRounding, ParametersStepsAndElementsHaveBitsOfTheirOwn) {
  const auto halves = [](const std::vector<double>& values) {
    std::vector<bool> up;
    for (const double value : values) up.push_back(value != 1);
    return up;
  };
  const std::vector<Tensor> all{ones({256}, {.dtype = DType::bf16, .requires_grad = true}),
                                ones({256}, {.dtype = DType::bf16, .requires_grad = true})};
  SGD sgd(all, {.lr = 0x1p-8, .stochastic_rounding = true});  // half of a last place above 1
  std::vector<std::vector<bool>> seen;
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& p : all) {
      const NoGrad no_grad;
      p.fill_(1.0);
      p.set_grad(full({256}, -1.0, {.dtype = DType::bf16}));
    }
    sgd.step();
    for (const Tensor& p : all) seen.push_back(halves(p.to_vector<double>()));
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto ups = std::count(seen[i].begin(), seen[i].end(), true);
    EXPECT_NEAR(static_cast<double>(ups), 128, 5 * 8) << i;
    for (std::size_t k = 0; k < i; ++k) {
      std::size_t same = 0;
      for (std::size_t e = 0; e < 256; ++e) same += seen[i][e] == seen[k][e] ? 1 : 0;
      EXPECT_NEAR(static_cast<double>(same), 128, 5 * 8) << i << " and " << k;
    }
  }
}

TEST(StochasticRounding, IsForParametersOf16BitsAlone) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::vector<Tensor> with = parameters(dtype), without = parameters(dtype);
    AdamW a(with, {.stochastic_rounding = true}), b(without, {});
    run_steps(a, 1, 4);
    run_steps(b, 1, 4);
    EXPECT_EQ(bits(with[0]), bits(without[0]));
  }
}

}  // namespace
}  // namespace mezzo::optim
