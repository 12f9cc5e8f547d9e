// State dicts of optimizers: continuing bit for bit, and refusing what does not fit without any change.
#include <functional>
#include <memory>

#include "mezzo/io/json.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/nadam.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tests/support/algorithms.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr std::size_t kCount = 20;

std::vector<Tensor> parameters(DType dtype) {
  return {parameter_of(values_of(1, kCount), dtype), parameter_of(values_of(2, kCount), dtype)};
}

void run(Optimizer& optimizer, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t step = from; step < to; ++step) {
    std::uint64_t seed = 100 * step;
    for (const Tensor& p : optimizer.parameters())
      p.set_grad(tensor(values_of(++seed, kCount), {.dtype = p.dtype()}));
    optimizer.step();
  }
}

TEST(OptimizerState, ContinuesBitForBit) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const std::vector<Tensor> straight = parameters(dtype), resumed = parameters(dtype);
      const auto a = algorithm.make(straight, kMasters), b = algorithm.make(resumed, kMasters);
      run(*a, 0, 3);
      a->set_lr(0.05);
      if (a->momentum().value_or(0) > 0) a->set_momentum(0.7);
      run(*b, 50, 52);  // what it holds must not matter
      {
        const NoGrad no_grad;
        for (std::size_t i = 0; i < straight.size(); ++i) resumed[i].copy_(straight[i]);
      }
      b->load_state_dict(saved(*a));
      EXPECT_EQ(b->lr(), 0.05);
      EXPECT_EQ(b->momentum(), a->momentum());
      run(*a, 3, 6);
      run(*b, 3, 6);
      for (std::size_t i = 0; i < straight.size(); ++i)
        EXPECT_EQ(bits(resumed[i]), bits(straight[i])) << algorithm << " " << to_string(dtype);
      EXPECT_EQ(state_bits(*b), state_bits(*a)) << algorithm;
    }
  }
}

TEST(OptimizerState, IsCopiedIn) {
  const std::vector<Tensor> p = parameters(DType::f32);
  Adam a(p), b(parameters(DType::f32));
  run(a, 0, 1);
  b.load_state_dict(a.state_dict());
  const auto before = state_bits(b);
  run(a, 1, 2);
  EXPECT_EQ(state_bits(b), before);
}

TEST(OptimizerState, OfAFreshOptimizerTakesTheLoadedOneBackToItsStart) {
  Adam fresh(parameters(DType::f32)), used(parameters(DType::f32));
  run(used, 0, 2);
  used.load_state_dict(fresh.state_dict());
  EXPECT_TRUE(used.state_dict().tensors.empty());
}

TEST(OptimizerState, HoldsOptionsPerGroupAndNamedTensors) {
  const std::vector<Tensor> p = parameters(DType::f16);
  SGD sgd({{{{"a", p[0]}}, {.lr = 0.5, .momentum = 0.5, .master_weights = true}}, {{{"b", p[1]}}, {}}});
  run(sgd, 0, 1);
  const OptimizerState state = sgd.state_dict();
  EXPECT_EQ(state.options.at("optimizer"), Value("SGD"));
  EXPECT_EQ(state.options.at("param_groups").at(0).at("momentum"), Value(0.5));
  EXPECT_EQ(state.options.at("param_groups").at(1).at("num_parameters"), Value(1));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state.tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.step", "0.momentum_buffer", "0.master", "1.step"}));
}

TEST(OptimizerState, SurvivesJson) {
  AdamW a(parameters(DType::f64), {.lr = 0.1 + 0.2, .eps = 1e-300});
  run(a, 0, 2);
  OptimizerState state = saved(a);
  state.options = io::parse_json(state.options.to_string());
  AdamW b(parameters(DType::f64));
  b.load_state_dict(state);
  EXPECT_EQ(b.lr(), 0.1 + 0.2);
  EXPECT_EQ(b.options().eps, 1e-300);
}

/// Loading `state` must throw E and leave the optimizer as it was.
template <class E>
void refuses(Optimizer& optimizer, const OptimizerState& state, const std::string& part) {
  const auto before = state_bits(optimizer);
  const Value options = optimizer.state_dict().options;
  try {
    optimizer.load_state_dict(state);
    ADD_FAILURE() << "not refused: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << part << ": another type was thrown: " << error.what();
  }
  EXPECT_EQ(state_bits(optimizer), before) << part;
  EXPECT_EQ(optimizer.state_dict().options, options) << part;
}

TEST(OptimizerState, OfOneOptimizerIsRefusedByAllOthers) {
  for (const Algorithm& from : algorithms()) {
    const auto source = from.make(parameters(DType::f32));
    run(*source, 0, 2);
    const OptimizerState state = saved(*source);
    for (const Algorithm& to : algorithms()) {
      const auto target = to.make(parameters(DType::f32));
      run(*target, 0, 1);
      if (to.optimizer != from.optimizer) refuses<StateError>(*target, state, "the state of " + to.optimizer);
    }
    // Of the same kind, but of one parameter, and of two that are longer.
    const auto one = from.make({parameter_of(values_of(1, kCount), DType::f32)});
    refuses<StateError>(*one, state, "1 parameters in group 0");
    const Tensor p = parameter_of(values_of(1, kCount), DType::f32);
    const auto longer = from.make({p, parameter_of(values_of(1, kCount + 1), DType::f32)});
    const bool has_buffers = state.tensors.size() > 2;  // without them there is no shape to differ
    if (has_buffers) refuses<ShapeError>(*longer, state, "of shape [21]");
  }
}

TEST(OptimizerState, OfOtherVariantsIsRefusedOrTakenWhole) {
  // Options come with the state, so a plain RMSprop takes a centered one's state; not without its buffers.
  RMSprop centered(parameters(DType::f32), {.momentum = 0.5, .centered = true}),
      plain(parameters(DType::f32));
  run(centered, 0, 3);
  OptimizerState state = saved(centered);
  plain.load_state_dict(state);
  EXPECT_TRUE(plain.options().centered);
  EXPECT_EQ(state_bits(plain), state_bits(centered));
  std::erase_if(state.tensors, [](const auto& entry) { return entry.first == "1.grad_avg"; });
  refuses<StateError>(plain, state, "1.grad_avg");
  NAdam nadam(parameters(DType::f32));
  run(nadam, 0, 3);
  state = saved(nadam);
  std::erase_if(state.tensors, [](const auto& entry) { return entry.first == "0.mu_product"; });
  refuses<StateError>(nadam, state, "0.mu_product");
}

class RefusedState : public ::testing::Test {
 protected:
  RefusedState() {
    run(optimizer, 0, 2);
    state = saved(optimizer);
  }
  Tensor& tensor_of(const std::string& key) {
    for (auto& [name, tensor] : state.tensors) {
      if (name == key) return tensor;
    }
    throw std::runtime_error(key);
  }
  Value group(std::string key, Value value) const {
    Value groups = state.options.at("param_groups");
    Value first = groups.at(0);
    first.set(std::move(key), std::move(value));
    return Value::list(first);
  }
  Adam optimizer{parameters(DType::f32), {.lr = 0.1}};
  OptimizerState state;
};

TEST_F(RefusedState, OfAnotherOptimizer) {
  SGD sgd(parameters(DType::f32));
  refuses<StateError>(optimizer, sgd.state_dict(), "the state of Adam");
  AdamW adamw(parameters(DType::f32));
  refuses<StateError>(optimizer, adamw.state_dict(), "got AdamW");
  refuses<ValueError>(optimizer, {}, "");
}

TEST_F(RefusedState, OfOtherGroups) {
  Adam three(std::vector<Tensor>{parameter_of({1}), parameter_of({1}), parameter_of({1})});
  refuses<StateError>(optimizer, three.state_dict(), "2 parameters in group 0");
  const std::vector<Tensor> p = parameters(DType::f32);
  Adam split({{{{"a", p[0]}}, {}}, {{{"b", p[1]}}, {}}});
  refuses<StateError>(optimizer, split.state_dict(), "1 parameter groups");
}

TEST_F(RefusedState, OfOtherShapes) {
  tensor_of("1.exp_avg_sq") = zeros({3});
  refuses<ShapeError>(optimizer, state, "1.exp_avg_sq of shape [20]");
  tensor_of("1.exp_avg_sq") = zeros({static_cast<std::int64_t>(kCount)});
  tensor_of("0.step") = zeros({1});
  refuses<ShapeError>(optimizer, state, "0.step of shape []");
}

TEST_F(RefusedState, WithTensorsMissingOrTooMany) {
  OptimizerState less = state;
  std::erase_if(less.tensors, [](const auto& entry) { return entry.first == "0.exp_avg"; });
  refuses<StateError>(optimizer, less, "0.exp_avg");
  OptimizerState more = state;
  more.tensors.emplace_back("2.step", zeros({}));
  refuses<StateError>(optimizer, more, "2.step");
  OptimizerState twice = state;
  twice.tensors.push_back(twice.tensors.front());
  refuses<StateError>(optimizer, twice, "0.step twice");
  OptimizerState undefined = state;
  undefined.tensors.front().second = Tensor();
  refuses<StateError>(optimizer, undefined, "undefined 0.step");
}

TEST_F(RefusedState, WithTensorsOfAnotherKind) {
  tensor_of("0.exp_avg") = zeros({static_cast<std::int64_t>(kCount)}, {.dtype = DType::i64});
  refuses<DTypeError>(optimizer, state, "floating 0.exp_avg");
}

TEST_F(RefusedState, WithOptionsThatMakeNoSense) {
  const Value good = state.options;
  for (const auto& [key, value] : std::vector<std::pair<const char*, Value>>{
           {"lr", -1.0}, {"lr", "fast"}, {"beta1", 1.0}, {"amsgrad", 3}, {"momentum", 0.9}}) {
    state.options = good;
    state.options.set("param_groups", group(key, value));
    refuses<ValueError>(optimizer, state, "");
  }
}

TEST_F(RefusedState, WithOptionsThatAskForOtherTensors) {
  // Valid in itself, but then max_exp_avg_sq is missing: the options must go back as they were.
  state.options.set("param_groups", group("amsgrad", true));
  refuses<StateError>(optimizer, state, "0.max_exp_avg_sq");
  EXPECT_FALSE(optimizer.options().amsgrad);
}

}  // namespace
}  // namespace mezzo::optim
