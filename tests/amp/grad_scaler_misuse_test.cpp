// GradScaler used wrongly: every forbidden call is refused with a message that names what was expected and
// what to do, and leaves parameters, gradients, scale and the state machine as they were.
#include <gtest/gtest.h>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/optim/adam.h"

namespace mezzo::amp {
namespace {

/// A scaler with one optimizer in the middle of training, and everything that a refused call must not change.
class Misuse : public ::testing::Test {
 protected:
  Misuse() {
    for (const bool overflow : {false, true, false}) one.iterate(scaler, overflow);
    one.backward(scaler, 6);
  }

  [[nodiscard]] Value snapshot() const {
    const auto text = [](const Tensor& t) { return t.defined() ? Value(t.to_vector<double>()) : Value(); };
    return Value::list(text(one.parameter), text(one.parameter.grad()), scaler.state_dict());
  }

  /// f must throw E and name these parts; nothing may have changed.
  template <class E = StateError>
  void refuses(const std::function<void()>& f, std::initializer_list<const char*> parts) {
    const Value before = snapshot();
    Refusal<E>(f).names(parts);
    EXPECT_EQ(snapshot(), before);
  }

  /// The iteration can still be ended as it should be.
  void expect_usable() {
    scaler.update();
    const double p = one.parameter.to_vector<double>()[0];
    EXPECT_FALSE(one.iterate(scaler, false));
    EXPECT_NE(one.parameter.to_vector<double>()[0], p);
  }

  GradScaler scaler{{.init_scale = 4, .growth_interval = 2}};
  OneParameter one;
};

// --- the state table of one optimizer: READY, UNSCALED, STEPPED

TEST_F(Misuse, ReadyAllowsUnscaleAndStepButNotUpdate) {  // G-52
  refuses([&] { scaler.update(); },
          {"GradScaler.update", "expected an optimizer that was stepped or unscaled", "got none",
           "step(optimizer) before update()"});
  scaler.unscale_(one.optimizer);
  EXPECT_EQ(one.parameter.grad().to_vector<double>()[0], 6 / scaler.get_scale());
  scaler.step(one.optimizer);
  expect_usable();
}

TEST_F(Misuse, UnscaledRefusesUnscaleAndAllowsStep) {  // G-21
  scaler.unscale_(one.optimizer);
  refuses([&] { scaler.unscale_(one.optimizer); },
          {"GradScaler.unscale_", "expected one call per optimizer between updates", "second one",
           "update() once at the end of the iteration"});
  EXPECT_FALSE(scaler.step(one.optimizer).skipped());
  expect_usable();
}

TEST_F(Misuse, UnscaledAllowsUpdateWhichLeavesTheStepOut) {
  const std::vector<double> before = one.parameter.to_vector<double>();
  scaler.unscale_(one.optimizer);
  scaler.update();
  EXPECT_EQ(one.parameter.to_vector<double>(), before);
  EXPECT_FALSE(one.iterate(scaler, false)) << "ready again";
}

TEST_F(Misuse, SteppedRefusesUnscaleAndStepAndAllowsUpdate) {  // G-21, G-32
  scaler.step(one.optimizer);
  refuses([&] { scaler.unscale_(one.optimizer); }, {"GradScaler.unscale_", "expected a call before step()",
                                                    "one after step()", "move unscale_ before step"});
  refuses([&] { scaler.step(one.optimizer); },
          {"GradScaler.step", "expected one step per optimizer between updates", "second one",
           "update() once at the end of the iteration"});
  expect_usable();
}

TEST_F(Misuse, SteppedAfterUnscaleRefusesTheSame) {
  scaler.unscale_(one.optimizer);
  scaler.step(one.optimizer);
  refuses([&] { scaler.unscale_(one.optimizer); }, {"one after step()"});
  refuses([&] { scaler.step(one.optimizer); }, {"second one"});
  expect_usable();
}

TEST_F(Misuse, UpdateTwiceIsRefused) {  // G-52
  scaler.step(one.optimizer);
  scaler.update();
  refuses([&] { scaler.update(); }, {"expected an optimizer that was stepped or unscaled", "got none"});
}

TEST_F(Misuse, StagesBelongToEachOptimizer) {
  OneParameter other;
  other.backward(scaler);
  scaler.step(one.optimizer);
  EXPECT_NO_THROW(scaler.unscale_(other.optimizer));
  refuses([&] { scaler.unscale_(one.optimizer); }, {"one after step()"});
  refuses([&] { scaler.unscale_(other.optimizer); }, {"second one"});
  EXPECT_NO_THROW(scaler.step(other.optimizer));
  expect_usable();
}

// --- before the first scale()

TEST_F(Misuse, EverythingNeedsAScaledLossFirst) {  // G-20, G-32, G-50
  GradScaler fresh({.init_scale = 4});
  const std::vector<double> p = one.parameter.to_vector<double>(),
                            g = one.parameter.grad().to_vector<double>();
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"GradScaler.unscale_", [&] { fresh.unscale_(one.optimizer); }},
      {"GradScaler.step", [&] { fresh.step(one.optimizer); }},
      {"GradScaler.update", [&] { fresh.update(); }},
      {"GradScaler.update", [&] { fresh.update(2.0); }},
      {"GradScaler.update", [&] { fresh.update(tensor(2.0)); }},
      {"GradScaler.scale_tensor", [&] { static_cast<void>(fresh.scale_tensor()); }},
      {"GradScaler.inv_scale_tensor", [&] { static_cast<void>(fresh.inv_scale_tensor()); }},
      {"GradScaler.steps_skipped_tensor", [&] { static_cast<void>(fresh.steps_skipped_tensor()); }},
  };
  for (const auto& [name, call] : calls) {
    Refusal<StateError>(call).names({name, "expected scale() to have been called", "scaled nothing yet",
                                     "scaler.scale(loss).backward()"});
  }
  EXPECT_EQ(one.parameter.to_vector<double>(), p);
  EXPECT_EQ(one.parameter.grad().to_vector<double>(), g);
  EXPECT_EQ(fresh.get_scale(), 4);
  EXPECT_FALSE(one.iterate(fresh, false)) << "and works afterwards";
}

TEST_F(Misuse, ALossMustBeDefined) {
  refuses<ValueError>([&] { static_cast<void>(scaler.scale(Tensor())); },
                      {"GradScaler.scale", "expected a loss", "undefined tensor"});
}

// --- gradients

TEST_F(Misuse, AnOptimizerWithoutAnyGradientIsRefused) {  // G-34
  one.optimizer.zero_grad();
  for (const auto& call : {std::function<void()>([&] { scaler.step(one.optimizer); }),
                           std::function<void()>([&] { scaler.unscale_(one.optimizer); })}) {
    refuses(call, {"expected an optimizer with gradients", "whose parameters have none", "backward()"});
  }
  one.backward(scaler);
  EXPECT_NO_THROW(scaler.step(one.optimizer)) << "the refused calls left it ready";
}

TEST_F(Misuse, F16GradientsWithoutMastersAreRefused) {  // G-24
  const Tensor half = ones({2}, {.dtype = DType::f16, .requires_grad = true});
  optim::SGD optimizer(optim::NamedTensors{{"net.weight", half}}, {.lr = 1});
  half.set_grad(ones({2}, {.dtype = DType::f16}));
  for (const auto& call : {std::function<void()>([&] { scaler.unscale_(optimizer); }),
                           std::function<void()>([&] { scaler.step(optimizer); })}) {
    refuses<DTypeError>(call, {"expected f32 or bf16 gradients", "f16 of net.weight", "master_weights = true",
                               "let autocast cast them"});
    EXPECT_EQ(half.to_vector<double>(), (std::vector<double>{1, 1}));
    EXPECT_EQ(half.grad().to_vector<double>(), (std::vector<double>{1, 1}));
  }
}

TEST_F(Misuse, MastersAreAskedForPerParameter) {
  const Tensor half = ones({2}, {.dtype = DType::f16, .requires_grad = true});
  const Tensor brain = ones({2}, {.dtype = DType::bf16, .requires_grad = true});
  optim::SGD optimizer(
      {{{{"half", half}}, {.lr = 1, .master_weights = true}}, {{{"brain", brain}}, {.lr = 1}}});
  half.set_grad(full({2}, 4.0, {.dtype = DType::f16}));
  brain.set_grad(full({2}, 4.0, {.dtype = DType::bf16}));
  const double expected = 1 - 4 / scaler.get_scale();
  EXPECT_FALSE(scaler.step(optimizer).skipped());
  EXPECT_EQ(half.to_vector<double>(), (std::vector<double>{expected, expected}));
  EXPECT_EQ(brain.to_vector<double>(), (std::vector<double>{expected, expected}));
}

TEST_F(Misuse, ExpandedGradientsAreRefused) {
  one.parameter.set_grad(expand(tensor({3.0}), {2}));
  for (const auto& call : {std::function<void()>([&] { scaler.unscale_(one.optimizer); }),
                           std::function<void()>([&] { scaler.step(one.optimizer); })}) {
    refuses<ShapeError>(
        call, {"expected a gradient of parameter 0 [2] with memory of its own", "strides [0]", "clone()"});
  }
}

// --- arguments

TEST_F(Misuse, AnEmptyClosureIsRefused) {
  refuses<ValueError>([&] { scaler.step(one.optimizer, std::function<Tensor()>()); },
                      {"GradScaler.step", "expected a closure", "step(optimizer)"});
  EXPECT_NO_THROW(scaler.step(one.optimizer)) << "and the optimizer is still ready";
}

TEST_F(Misuse, ANewScaleMustBeAPositiveFiniteNumber) {  // G-51
  for (const double bad : {0.0, -1.0, kInf, kNan, 1e39, 1e-50}) {
    refuses<ValueError>([&] { scaler.update(bad); },
                        {"GradScaler.update", "expected a positive, finite scale", "pass for example 65536"});
  }
}

TEST_F(Misuse, ANewScaleTensorHasOneElementAndNoHistory) {  // G-51
  refuses<ValueError>([&] { scaler.update(Tensor()); }, {"undefined tensor"});
  refuses<ShapeError>([&] { scaler.update(ones({2})); }, {"expected one element", "[2]", "scalar"});
  const Tensor leaf = tensor({4.0}, {.requires_grad = true});
  refuses<AutogradError>([&] { scaler.update(leaf); }, {"without history", "requires grad", "detach()"});
  EXPECT_NO_THROW(scaler.update(leaf.detach()));
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST_F(Misuse, StateOfADisabledScalerIsRefused) {  // G-62
  for (const Value& empty : {Value(Value::Map{}), Value(), GradScaler({.enabled = false}).state_dict()}) {
    refuses([&] { scaler.load_state_dict(empty); },
            {"GradScaler.load_state_dict", "state of an enabled scaler", "an empty one", "disabled"});
  }
}

TEST_F(Misuse, BadStatesAreRefusedWhole) {
  const Value good = scaler.state_dict();
  const std::vector<std::pair<const char*, Value>> bad{
      {"scale", 0.0},          {"scale", kInf},        {"scale", "a lot"},       {"growth_factor", 1.0},
      {"backoff_factor", 2.0}, {"growth_interval", 0}, {"growth_interval", 2.5}, {"_growth_tracker", -1},
      {"steps_skipped", -1},   {"min_scale", -1.0},    {"max_scale", 0.0}};
  for (const auto& [key, value] : bad) {
    Value state = good;
    state.set("scale", 17.0).set("growth_factor", 5.0).set(key, value);
    const Value before = snapshot();
    EXPECT_THROW(scaler.load_state_dict(state), ValueError) << key << " " << value.to_string();
    EXPECT_EQ(snapshot(), before) << key;
  }
  for (const char* missing : {"scale", "growth_factor", "backoff_factor", "growth_interval"}) {
    Value::Map state = good.as_map();
    std::erase_if(state, [&](const auto& entry) { return entry.first == missing; });
    refuses<ValueError>([&] { scaler.load_state_dict(Value(state)); }, {missing});
  }
}

TEST_F(Misuse, AGroupAddedAfterUnscaleIsRefused) {
  const Tensor p = ones({2}, {.requires_grad = true}), added = ones({2}, {.requires_grad = true});
  optim::SGD optimizer(std::vector<Tensor>{p}, {.lr = 1});
  static_cast<void>(scaler.scale(ones({})));
  p.set_grad(ones({2}));
  added.set_grad(ones({2}));
  scaler.unscale_(optimizer);
  optimizer.add_param_group({.parameters = {{"added", added}}});
  refuses<StateError>([&] { scaler.step(optimizer); }, {"unscale_", "add_param_group"});
  EXPECT_EQ(added.to_vector<double>(), std::vector<double>(2, 1));
}

TEST_F(Misuse, ALoadedScaleIsKnownBeforeTheFirstLoss) {
  GradScaler saved({.init_scale = 8});
  for (const bool unscale : {false, true}) {
    GradScaler loaded({.init_scale = 2});
    const Tensor p = ones({2}, {.requires_grad = true});
    optim::SGD optimizer(std::vector<Tensor>{p}, {.lr = 1});
    p.set_grad(full({2}, 4.0));
    refuses<StateError>([&] { loaded.step(optimizer); }, {"scale() to have been called"});
    loaded.load_state_dict(saved.state_dict());
    if (unscale) loaded.unscale_(optimizer);
    EXPECT_FALSE(loaded.step(optimizer).skipped());
    EXPECT_EQ(p.to_vector<double>(), std::vector<double>(2, 0.5));
    loaded.update();
  }
}

TEST_F(Misuse, ARefusalByTheOptimizerLeavesTheIterationOpen) {
  // An optimizer whose parameter grew a history cannot step; the scaler must not think it has.
  const Tensor p = ones({2}, {.requires_grad = true});
  optim::Adam optimizer(std::vector<Tensor>{p});
  const Tensor other = ones({2}, {.requires_grad = true});
  p.set_grad(ones({2}));
  p.impl().grad_fn = (other * 1.0).impl().grad_fn;
  refuses<AutogradError>([&] { scaler.step(optimizer); }, {"expected leaf parameters"});
  p.impl().grad_fn = {};
  EXPECT_FALSE(scaler.step(optimizer).skipped());
}

}  // namespace
}  // namespace mezzo::amp
