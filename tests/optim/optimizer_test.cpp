// What all optimizers share: groups, learning rates, gradients that go, layouts, refusals, and skipped steps.
#include "mezzo/optim/optimizer.h"

#include <memory>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/backend.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// SGD with momentum, or Adam with everything on.
std::unique_ptr<Optimizer> make(bool adam, const std::vector<Tensor>& parameters, bool masters = false) {
  if (adam) {
    return std::make_unique<Adam>(
        parameters, AdamOptions{.lr = 0.1, .weight_decay = 0.1, .amsgrad = true, .master_weights = masters});
  }
  return std::make_unique<SGD>(
      parameters, SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .master_weights = masters});
}

/// A gradient of p's shape and dtype.
Tensor gradient_for(const Tensor& p, std::uint64_t seed) {
  return tensor(values_of(seed, static_cast<std::size_t>(p.numel())), p.shape(), {.dtype = p.dtype()});
}

// --- groups and learning rates

TEST(Optimizer, GroupsHaveOptionsOfTheirOwn) {
  const Tensor a = parameter_of({1}), b = parameter_of({1}), c = parameter_of({1});
  SGD sgd({{{{"a", a}, {"b", b}}, {.lr = 0.5}}, {{{"c", c}}, {.lr = 0.25, .weight_decay = 1}}});
  for (const Tensor& p : {a, b, c}) p.set_grad(ones({1}, {.dtype = DType::f64}));
  sgd.step();
  EXPECT_EQ(a.item(), 0.5);
  EXPECT_EQ(b.item(), 0.5);
  EXPECT_EQ(c.item(), 1 - 0.25 * 2);
  EXPECT_EQ(sgd.num_groups(), 2U);
  EXPECT_EQ(sgd.lr(1), 0.25);
  EXPECT_EQ(sgd.options(1).weight_decay, 1);
  ASSERT_EQ(sgd.parameters().size(), 3U);
  EXPECT_TRUE(sgd.parameters()[2].is_same(c));
  EXPECT_EQ(sgd.parameter_name(1), "b");
  EXPECT_EQ(SGD(std::vector<Tensor>{a, b}).parameter_name(1), "parameter 1 [1]");
}

TEST(Optimizer, LearningRatesChangeFromTheNextStepOnWithoutAHostRead) {
  for (const bool adam : {false, true}) {
    const Tensor p = parameter_of({1});
    const std::unique_ptr<Optimizer> optimizer = make(adam, {p});
    p.set_grad(ones({1}, {.dtype = DType::f64}));
    optimizer->step();
    const std::uint64_t reads = host_reads();
    optimizer->set_lr(0);
    EXPECT_EQ(optimizer->lr(), 0);
    const Tensor before = p.detach().clone();
    optimizer->step();
    EXPECT_EQ(host_reads(), reads);
    EXPECT_EQ(bits(p), bits(before));
    EXPECT_EQ(optimizer->state_dict().options.at("param_groups").at(0).at("lr"), Value(0.0));
    EXPECT_THROW(optimizer->set_lr(-1), ValueError);
    EXPECT_THROW(optimizer->set_lr(std::numeric_limits<double>::quiet_NaN()), ValueError);
    EXPECT_THROW(optimizer->set_lr(1, 1), IndexError);
    EXPECT_THROW(static_cast<void>(optimizer->lr(1)), IndexError);
    EXPECT_EQ(optimizer->lr(), 0);
  }
  EXPECT_THROW(static_cast<void>(SGD(std::vector<Tensor>{parameter_of({1})}).options(1)), IndexError);
  EXPECT_THROW(static_cast<void>(SGD(std::vector<Tensor>{parameter_of({1})}).parameter_name(1)), IndexError);
}

// --- gradients

TEST(Optimizer, ZeroGradDropsGradients) {
  const Tensor p = parameter_of({1, 2}), without = parameter_of({1});
  SGD sgd(std::vector<Tensor>{p, without});
  p.set_grad(ones({2}, {.dtype = DType::f64}));
  sgd.zero_grad();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_FALSE(without.grad().defined());
}

TEST(Optimizer, ZeroGradWithoutDroppingZeroesThemWhereTheyAre) {
  const Tensor p = parameter_of({1, 2}), without = parameter_of({1});
  SGD sgd(std::vector<Tensor>{p, without});
  const Tensor gradient = tensor({kInf, 3.0}, {.dtype = DType::f64});
  p.set_grad(gradient);
  sgd.zero_grad(false);
  EXPECT_TRUE(p.grad().is_same(gradient));
  EXPECT_EQ(gradient.to_vector<double>(), (std::vector<double>{0, 0}));
  EXPECT_FALSE(without.grad().defined());
}

TEST(Optimizer, ZeroGradDropsTheHistoryOfAGradient) {
  const Tensor p = parameter_of({2});
  SGD sgd(std::vector<Tensor>{p});
  sum(p * p * p).backward({.create_graph = true});
  const Tensor gradient = p.grad();
  ASSERT_TRUE(gradient.requires_grad());
  sgd.zero_grad(false);
  EXPECT_FALSE(p.grad().requires_grad());
  EXPECT_EQ(p.grad().item(), 0);
  EXPECT_EQ(p.grad().impl().data(), gradient.impl().data());
}

TEST(Optimizer, ParametersWithoutGradientStayAndKeepNoState) {
  for (const bool adam : {false, true}) {
    const Tensor p = parameter_of({1, 2}), without = parameter_of({3});
    const std::unique_ptr<Optimizer> optimizer = make(adam, {p, without});
    p.set_grad(gradient_for(p, 1));
    optimizer->step();
    EXPECT_EQ(without.item(), 3);
    EXPECT_TRUE(state_of(*optimizer, "0.step").defined());
    EXPECT_FALSE(state_of(*optimizer, "1.step").defined());
    p.set_grad({});
    optimizer->step();
    EXPECT_EQ(state_of(*optimizer, "0.step").item<std::int64_t>(), 1);
  }
}

TEST(Optimizer, AStepIsSeenByTheGraph) {
  const Tensor p = parameter_of({2});
  SGD sgd(std::vector<Tensor>{p});
  const Tensor y = sum(p * p);
  p.set_grad(ones({1}, {.dtype = DType::f64}));
  sgd.step();
  EXPECT_THROW(y.backward(), AutogradError) << "the saved value was overwritten";
}

TEST(Optimizer, EmptyAndZeroDimensionalParametersAreFine) {
  for (const bool adam : {false, true}) {
    const Tensor nothing = zeros({0, 3}, {.requires_grad = true}), scalar = ones({}, {.requires_grad = true});
    const std::unique_ptr<Optimizer> optimizer = make(adam, {nothing, scalar});
    nothing.set_grad(zeros({0, 3}));
    scalar.set_grad(tensor(1.0));
    optimizer->step();
    EXPECT_LT(scalar.item(), 1);
  }
}

// --- layouts

/// The values as every second column of a larger tensor that is filled with 9.
Tensor sliced(const Tensor& values, Tensor& memory) {
  memory = full({values.size(0), 2 * values.size(1)}, 9.0, options_of(values));
  const Tensor view = slice(memory, 1, 0, 2 * values.size(1), 2);
  view.copy_(values);
  return view;
}

TEST(Optimizer, AStridedParameterLeavesTheMemoryAroundItAlone) {
  Tensor memory;
  const Tensor view = sliced(tensor(values_of(5, 6), {2, 3}), memory);
  const Tensor p = alias(view, view.shape(), view.strides(), view.impl().offset, false).requires_grad_();
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1});
  p.set_grad(p.detach().clone());
  sgd.step();
  EXPECT_EQ(memory.to_vector<double>(), (std::vector<double>{0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9}));
}

// --- skipped steps

TEST(Optimizer, ARecordOfAnOverflowSkips) {
  const Tensor p = parameter_of({1}, DType::f32);
  SGD sgd(std::vector<Tensor>{p}, {.lr = 1});
  p.set_grad(ones({1}));
  ScalerRecord record;
  record.found_inf = 1;
  sgd.step({.record = &record, .unscale = true});
  EXPECT_EQ(p.item(), 1);
  record.found_inf = 0;
  sgd.step({.record = &record, .unscale = true});
  EXPECT_EQ(p.item(), 0);
}

// --- refusals

template <class E>
void refuses(const std::function<void()>& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.fix().empty()) << error.what();
  }
}

TEST(Optimizer, RefusesWhatItCannotTrain) {
  const Tensor p = parameter_of({1});
  refuses<ValueError>([] { SGD{std::vector<Tensor>{}}; }, "at least one parameter");
  refuses<ValueError>([&] { SGD(std::vector<Tensor>{p, Tensor()}); }, "an undefined tensor");
  refuses<DTypeError>([&] { SGD(std::vector<Tensor>{p, ones({2}, {.dtype = DType::i64})}); }, "i64");
  refuses<AutogradError>([&] { SGD(std::vector<Tensor>{p * 2.0}); }, "leaf parameters");
  refuses<ValueError>([&] { SGD(std::vector<Tensor>{p, p}); }, "each parameter once");
  refuses<ValueError>([&] { SGD(NamedTensors{{"w", p}, {"tied", p}}); }, "tied twice");
  refuses<ValueError>([&] { SGD({{{{"w", p}}, {}}, {{{"v", p}}, {}}}); }, "v twice");
  refuses<ShapeError>([&] { SGD(std::vector<Tensor>{alias(p, {3}, {0}, 0, false)}); }, "strides [0]");
}

TEST(Optimizer, WhenItThrowsNothingHasChanged) {
  for (const bool adam : {false, true}) {
    const Tensor good = parameter_of({1}), bad = parameter_of({2}), other = parameter_of({1});
    const std::unique_ptr<Optimizer> optimizer = make(adam, {good, bad});
    for (const Tensor& p : {good, bad}) p.set_grad(ones({1}, {.dtype = DType::f64}));
    optimizer->step();
    const auto state = state_bits(*optimizer);
    const auto before = std::pair(bits(good), bits(bad));
    bad.impl().grad_fn = (other * 1.0).impl().grad_fn;  // the second parameter is no leaf any more
    EXPECT_THROW(optimizer->step(), AutogradError);
    bad.impl().grad_fn = {};
    EXPECT_EQ(std::pair(bits(good), bits(bad)), before);
    EXPECT_EQ(state_bits(*optimizer), state);
  }
}

// --- step hooks

TEST(Optimizer, StepHooksRunAroundEachStepUntilTheyAreRemoved) {
  const Tensor p = parameter_of({1});
  SGD sgd({p}, {.lr = 0.5});
  p.set_grad(ones({1}, {.dtype = DType::f64}));
  std::vector<double> before, after;
  const std::size_t first =
      sgd.register_step_pre_hook([&](Optimizer& /*optimizer*/) { before.push_back(p.item()); });
  const std::size_t second = sgd.register_step_post_hook([&](Optimizer& optimizer) {
    after.push_back(p.item());
    EXPECT_EQ(&optimizer, &sgd);
  });
  EXPECT_NE(first, second);
  sgd.step();
  sgd.remove_step_hook(first);
  sgd.step();
  sgd.remove_step_hook(second);
  sgd.remove_step_hook(second);  // it is not there any more
  sgd.step();
  EXPECT_EQ(before, (std::vector<double>{1}));
  EXPECT_EQ(after, (std::vector<double>{0.5, 0}));
  EXPECT_THROW(sgd.register_step_pre_hook({}), ValueError);
}

TEST(Optimizer, AStepHookMayRemoveItself) {
  const Tensor p = parameter_of({1});
  SGD sgd({p}, {.lr = 0.5});
  p.set_grad(ones({1}, {.dtype = DType::f64}));
  int calls = 0;
  std::size_t id = 0;
  id = sgd.register_step_post_hook([&](Optimizer& optimizer) {
    ++calls;
    optimizer.remove_step_hook(id);
  });
  sgd.step();
  sgd.step();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace mezzo::optim
