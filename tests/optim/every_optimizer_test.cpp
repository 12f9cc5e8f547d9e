// What every optimizer's steps have in common: skipped ones leave no trace, and neither grouping, layout,
// threads nor the way gradients are unscaled change a bit.
#include <cmath>
#include <map>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/tests/support/algorithms.h"
#include "optim/optim_support.h"
#include "support/thread_guard.h"

namespace mezzo::optim {
namespace {

class EveryOptimizer : public ::testing::TestWithParam<Algorithm> {
 protected:
  [[nodiscard]] const Algorithm& algorithm() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, ::testing::ValuesIn(algorithms()),
                         [](const auto& named) { return named.param.name; });

/// Around a pack of the kernels and a tile (1024 elements); none at all, and no dims.
const std::vector<Shape> kShapes{{1}, {3}, {4}, {5}, {31, 33}, {1023}, {1024}, {1025}, {3, 1366}, {0, 2}, {}};

Tensor leaf(std::uint64_t seed, const Shape& shape, DType dtype) {
  const auto count = static_cast<std::size_t>(layout::numel(shape));
  return tensor(values_of(seed, count), shape, {.dtype = dtype, .requires_grad = true});
}

/// A leaf of each dtype for each shape.
std::vector<Tensor> leaves() {
  std::vector<Tensor> result;
  for (const Shape& shape : kShapes) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
      result.push_back(leaf(result.size() + 1, shape, dtype));
  }
  return result;
}

Tensor gradient_for(const Tensor& p, std::uint64_t seed, double scale = 1) {
  const NoGrad no_grad;
  return leaf(seed, p.shape(), p.dtype()).detach() * scale;
}

/// Gradients that depend on the step and the parameter's number only.
void set_gradients(const std::vector<Tensor>& parameters, std::uint64_t step, double scale = 1) {
  std::uint64_t seed = 1000 * (step + 1);
  for (const Tensor& p : parameters) p.set_grad(gradient_for(p, ++seed, scale));
}

/// Every bit of parameters and state, by name.
using Snapshot = std::map<std::string, std::vector<std::uint64_t>>;
Snapshot snapshot(const Optimizer& optimizer) {
  Snapshot result;
  std::size_t i = 0;
  for (const Tensor& p : optimizer.parameters()) result[std::to_string(i++)] = bits(p);
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) result[key] = bits(tensor);
  return result;
}

// --- skipped steps

/// Parameters of all dtypes in two groups, with masters.
std::unique_ptr<Optimizer> in_two_groups(const Algorithm& algorithm) {
  NamedTensors first, second;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::f16}) {
    first.emplace_back("", leaf(first.size(), {33}, dtype));
    second.emplace_back("", leaf(10 + second.size(), {5, 7}, dtype));
  }
  return algorithm.make_groups({first, second}, kMasters);
}

TEST_P(EveryOptimizer, SkippedStepsLeaveNoTrace) {  // G-43
  const auto with = in_two_groups(algorithm()), without = in_two_groups(algorithm());
  ScalerRecord good, bad;
  good.scale = bad.scale = 4;
  good.inv_scale = bad.inv_scale = 0.25F;
  bad.found_inf = 1;
  std::uint64_t step = 0;
  for (const bool skips : {true, false, true, true, false, false, true, false, false}) {
    SCOPED_TRACE(++step);
    const Snapshot before = snapshot(*with);
    set_gradients(with->parameters(), step, 4);
    const Tensor last = with->parameters().back();
    const auto gradient = bits(last.grad());
    with->step({.record = skips ? &bad : &good, .unscale = true});
    if (skips) {
      const Snapshot after = snapshot(*with);
      for (const auto& [key, values] : before) EXPECT_EQ(after.at(key), values) << key;
      EXPECT_EQ(bits(last.grad()), gradient) << "gradients stay scaled";
      continue;
    }
    set_gradients(without->parameters(), step, 4);
    without->step({.record = &good, .unscale = true});
    ASSERT_EQ(snapshot(*with), snapshot(*without));
  }
  EXPECT_EQ(state_of(*with, "0.step").item<std::int64_t>(), 5);
}

TEST_P(EveryOptimizer, ASkippedFirstStepIsAsNone) {
  const auto optimizer = in_two_groups(algorithm());
  const std::vector<Tensor> parameters = optimizer->parameters();
  const Snapshot before = snapshot(*optimizer);
  amp::GradScaler scaler;
  static_cast<void>(scaler.scale(zeros({})));
  set_gradients(parameters, 0);
  select(parameters[2].grad(), 0, 7).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(scaler.step(*optimizer).skipped());
  for (const auto& [key, values] : before) EXPECT_EQ(snapshot(*optimizer).at(key), values) << key;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(state_of(*optimizer, std::to_string(i) + ".step").item<std::int64_t>(), 0);
}

TEST_P(EveryOptimizer, UnscalingInTheStepEqualsUnscalingBefore) {
  const auto fused = in_two_groups(algorithm()), apart = in_two_groups(algorithm());
  for (Optimizer* optimizer : {fused.get(), apart.get()}) {
    amp::GradScaler scaler({.init_scale = 8});  // a power of two, so that nothing is rounded
    for (std::uint64_t step = 0; step < 4; ++step) {
      static_cast<void>(scaler.scale(zeros({})));
      set_gradients(optimizer->parameters(), step, 8);
      if (optimizer == apart.get()) scaler.unscale_(*optimizer);
      scaler.step(*optimizer);
      scaler.update();
    }
  }
  EXPECT_EQ(snapshot(*fused), snapshot(*apart));
  const auto plain = in_two_groups(algorithm());
  for (std::uint64_t step = 0; step < 4; ++step) {
    set_gradients(plain->parameters(), step);
    plain->step();
  }
  EXPECT_EQ(snapshot(*fused), snapshot(*plain));
}

// --- grouping, layout, threads

TEST_P(EveryOptimizer, OneTensorAtATimeGivesTheSameBits) {
  const std::vector<Tensor> together = leaves(), apart = leaves();
  const auto one = algorithm().make(together, kMasters);
  std::vector<std::unique_ptr<Optimizer>> each;
  for (const Tensor& p : apart) each.push_back(algorithm().make({p}, kMasters));
  for (std::uint64_t step = 0; step < 3; ++step) {
    set_gradients(together, step);
    set_gradients(apart, step);
    one->step();
    for (const auto& optimizer : each) optimizer->step();
  }
  Snapshot expected;
  for (std::size_t i = 0; i < each.size(); ++i) {
    for (const auto& [key, values] : snapshot(*each[i]))
      expected[std::to_string(i) + key.substr(1)] = values;  // its only parameter is number 0
  }
  EXPECT_EQ(snapshot(*one), expected);
}

TEST_P(EveryOptimizer, LayoutDoesNotChangeABit) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Tensor start = leaf(5, {6, 5, 7, 9}, dtype).detach();
    const std::vector<Tensor> parameters{start.clone(), clone(start, MemoryFormat::channels_last),
                                         permute(permute(start, {3, 1, 0, 2}).contiguous(), {2, 1, 3, 0}),
                                         start.clone()};
    for (const std::size_t strided : {1U, 2U}) ASSERT_FALSE(parameters[strided].is_contiguous());
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    for (const Tensor& p : parameters) optimizers.push_back(algorithm().make({p.requires_grad_()}, kMasters));
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor gradient = gradient_for(start, 60 + step);
      for (const Tensor& p : parameters) p.set_grad(gradient.clone());
      parameters[1].set_grad(clone(gradient, MemoryFormat::channels_last));
      // Every third element of something larger.
      const Tensor wide = zeros({6, 5, 7, 27}, {.dtype = dtype});
      slice(wide, 3, 1, 27, 3).copy_(gradient);
      parameters[3].set_grad(slice(wide, 3, 1, 27, 3));
      for (const auto& optimizer : optimizers) optimizer->step();
    }
    for (const auto& optimizer : optimizers)
      EXPECT_EQ(snapshot(*optimizer), snapshot(*optimizers[0])) << to_string(dtype);
  }
}

TEST_P(EveryOptimizer, ThreadsDoNotChangeABit) {
  std::vector<Snapshot> results;
  for (const int threads : {1, 2}) {
    const test::ThreadGuard guard(threads);
    const std::vector<Tensor> parameters{leaf(1, {50'021}, DType::f32), leaf(2, {3, 17'001}, DType::bf16)};
    const auto optimizer = algorithm().make(parameters, kMasters);
    for (std::uint64_t step = 0; step < 2; ++step) {
      set_gradients(parameters, step);
      optimizer->step();
    }
    results.push_back(snapshot(*optimizer));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(EveryOptimizer, ParametersWithoutAGradientKeepTheirCount) {
  const std::vector<Tensor> parameters{leaf(1, {9}, DType::f32), leaf(2, {9}, DType::f32)};
  const Tensor alone = leaf(2, {9}, DType::f32);
  const auto both = algorithm().make(parameters), one = algorithm().make({alone});
  for (std::uint64_t step = 0; step < 7; ++step) {
    parameters[0].set_grad(gradient_for(alone, 40 + step));
    parameters[1].set_grad(step % 3 == 1 ? gradient_for(alone, step) : Tensor());
    both->step();
    if (step % 3 != 1) continue;
    alone.set_grad(gradient_for(alone, step));
    one->step();
  }
  EXPECT_EQ(bits(parameters[1]), bits(alone));
  EXPECT_EQ(state_of(*both, "0.step").item<std::int64_t>(), 7);
  EXPECT_EQ(state_of(*both, "1.step").item<std::int64_t>(), 2);
  EXPECT_EQ(both->step_calls(), 7U);
}

TEST_P(EveryOptimizer, ANanGradientShows) {
  const Tensor p = leaf(1, {3}, DType::f32);
  const auto optimizer = algorithm().make({p});
  for (const double gradient : {1.0, std::numeric_limits<double>::quiet_NaN(), 1.0}) {
    p.set_grad(tensor({1.0, gradient, -1.0}, {.dtype = DType::f32}));
    optimizer->step();
  }
  const std::vector<double> values = p.to_vector<double>();
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_FALSE(std::isnan(values[0]) || std::isnan(values[2]));
}

// --- 16-bit parameters

TEST_P(EveryOptimizer, AMasterIsTheF32Run) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor half = leaf(1, {1100}, dtype);
    const Tensor wide = half.detach().to(DType::f32).requires_grad_();
    const auto a = algorithm().make({half}, kMasters), b = algorithm().make({wide});
    for (std::uint64_t step = 0; step < 10; ++step) {
      half.set_grad(gradient_for(half, step));
      wide.set_grad(half.grad().to(DType::f32));
      a->step();
      b->step();
      ASSERT_EQ(bits(state_of(*a, "0.master")), bits(wide)) << step;
      ASSERT_EQ(bits(half), bits(wide.detach().to(dtype))) << step;
    }
    Snapshot state = snapshot(*a), wide_state = snapshot(*b);
    state.erase("0.master");
    state.erase("0");
    wide_state.erase("0");
    EXPECT_EQ(state, wide_state);
  }
}

TEST_P(EveryOptimizer, WithoutAMasterEveryStepRounds) {
  const Tensor half = leaf(1, {1100}, DType::bf16);
  const Tensor wide = half.detach().to(DType::f32).requires_grad_();
  const auto a = algorithm().make({half}), b = algorithm().make({wide});
  for (std::uint64_t step = 0; step < 10; ++step) {
    half.set_grad(gradient_for(half, step));
    wide.set_grad(half.grad().to(DType::f32));
    a->step();
    b->step();
    const NoGrad no_grad;
    wide.copy_(wide.to(DType::bf16));
    ASSERT_EQ(bits(half), bits(wide)) << step;
  }
}

// --- rates and closures

TEST_P(EveryOptimizer, RatesOnTheDeviceAreWhatAStepTakes) {
  const Tensor a = leaf(1, {20}, DType::f64), b = leaf(1, {20}, DType::f64), c = leaf(1, {20}, DType::f64);
  const auto set = algorithm().make({a}), shared = algorithm().make({b});
  const bool has_momentum = set->momentum().value_or(0) > 0;
  Value other = Value::Map{{"lr", 0.003}};
  if (has_momentum) other.set(algorithm().options.contains("momentum") ? "momentum" : "beta1", 0.6);
  const auto made = algorithm().make({c}, other);
  set->set_lr(0.003);
  if (has_momentum) set->set_momentum(0.6);
  shared->rates(0).copy_(tensor({0.003, has_momentum ? 0.6 : 0.0}, {.dtype = DType::f64}));
  for (const auto* optimizer : {&set, &shared, &made}) {
    for (std::uint64_t step = 0; step < 7; ++step) {
      set_gradients((*optimizer)->parameters(), step);
      (*optimizer)->step();
    }
    EXPECT_EQ((*optimizer)->lr(), 0.003);
    EXPECT_EQ(snapshot(**optimizer), snapshot(*set));
    EXPECT_EQ((*optimizer)->state_dict().options, made->state_dict().options);
  }
}

TEST_P(EveryOptimizer, AClosureComputesTheGradientsFirst) {
  const Tensor a = leaf(1, {20}, DType::f32), b = leaf(1, {20}, DType::f32);
  const auto by_hand = algorithm().make({a}), by_closure = algorithm().make({b});
  const NoGrad no_grad;  // which a closure runs without
  for (int step = 0; step < 3; ++step) {
    const auto loss_of = [](Optimizer& optimizer, const Tensor& p) {
      const EnableGrad recording;
      optimizer.zero_grad();
      const Tensor loss = sum(p * p * p);
      loss.backward();
      return loss;
    };
    const Tensor expected = loss_of(*by_hand, a);
    by_hand->step();
    const Tensor loss = by_closure->step([&] { return loss_of(*by_closure, b); });
    EXPECT_EQ(bits(loss), bits(expected));
  }
  EXPECT_EQ(snapshot(*by_closure), snapshot(*by_hand));
}

TEST_P(EveryOptimizer, UnderAScalerAClosureComputesTheGradients) {
  const auto after = [&](bool by_closure) {
    const Tensor p = leaf(1, {20}, DType::f32);
    const auto optimizer = algorithm().make({p});
    amp::GradScaler scaler({.init_scale = 8});
    for (std::uint64_t step = 1; step < 4; ++step) {
      const auto gradients = [&] {
        set_gradients({p}, step);
        const NoGrad no_grad;
        p.set_grad(p.grad() * 8);
        return scaler.scale(zeros({}));
      };
      if (by_closure) {
        scaler.step(*optimizer, gradients);
      } else {
        static_cast<void>(gradients());
        scaler.step(*optimizer);
      }
      scaler.update();
    }
    return std::pair(snapshot(*optimizer), p.to_vector<float>());
  };
  EXPECT_EQ(after(true), after(false));
}

TEST_P(EveryOptimizer, AnEmptyClosureIsRefused) {
  const Tensor p = leaf(1, {20}, DType::f32);
  const auto optimizer = algorithm().make({p});
  set_gradients({p}, 1);
  const Snapshot before = snapshot(*optimizer);
  EXPECT_THROW(static_cast<void>(optimizer->step(std::function<Tensor()>())), ValueError);
  EXPECT_EQ(snapshot(*optimizer), before);
}

}  // namespace
}  // namespace mezzo::optim
