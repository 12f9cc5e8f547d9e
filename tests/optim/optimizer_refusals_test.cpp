// What every optimizer refuses: options out of range, and groups that cannot be added. Nothing changes then.
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "mezzo/tests/support/algorithms.h"
#include "optim/optim_support.h"

namespace mezzo::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class OptimizerRefusals : public ::testing::TestWithParam<Algorithm> {
 protected:
  OptimizerRefusals() {
    p.set_grad(ones({3}, {.dtype = DType::f64}));
    optimizer->step();
  }

  /// `action` must throw E with these parts in its message, and leave the optimizer as it was.
  template <class E>
  void refuses(const std::function<void()>& action, const std::vector<std::string>& parts) {
    const auto before = all_bits();
    const Value options = optimizer->state_dict().options;
    try {
      action();
      ADD_FAILURE() << "not refused: " << parts.back();
    } catch (const E& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << ": " << error.what();
      EXPECT_FALSE(error.fix().empty());
    } catch (const std::exception& error) {
      ADD_FAILURE() << parts.back() << ": another type was thrown: " << error.what();
    }
    EXPECT_EQ(all_bits(), before);
    EXPECT_EQ(optimizer->state_dict().options, options);
    EXPECT_EQ(optimizer->num_groups(), 1U);
    EXPECT_EQ(optimizer->parameters().size(), 1U);
  }
  [[nodiscard]] std::map<std::string, std::vector<std::uint64_t>> all_bits() const {
    auto result = state_bits(*optimizer);
    result["parameter"] = bits(p);
    return result;
  }

  Tensor p = parameter_of({1, 2, 3}), other = parameter_of({1});
  std::unique_ptr<Optimizer> optimizer = GetParam().make({p});
};

INSTANTIATE_TEST_SUITE_P(All, OptimizerRefusals, ::testing::ValuesIn(algorithms()),
                         [](const auto& named) { return named.param.name; });

/// Values that an option must not have.
std::vector<double> bad_values(const std::string& option) {
  std::vector<double> values{kInf, -kInf, kNan};
  if (option != "dampening") values.push_back(-0.5);
  if (option == "beta1" || option == "beta2") values.push_back(1);
  if (option == "alpha" || option == "rho") values.push_back(1.5);
  return values;
}

std::string shown(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number == 1 ? "1.0" : number == 1.5 ? "1.5" : "-0.5";
}

TEST_P(OptimizerRefusals, OptionsOutOfRange) {
  for (const auto& [option, value] : GetParam().options.as_map()) {
    if (value.kind() != Value::Kind::real) continue;
    for (const double bad : bad_values(option)) {
      const Value changes = Value::Map{{option, bad}};
      const std::vector<std::string> message{GetParam().optimizer + ": expected ", option,
                                             ", got " + shown(bad) + "; check the options"};
      refuses<ValueError>([&] { static_cast<void>(GetParam().make({other}, changes)); }, message);
      refuses<ValueError>([&] { GetParam().add_group(*optimizer, unnamed({other}), changes); }, message);
      OptimizerState state = saved(*optimizer);
      Value group = state.options.at("param_groups").at(0);
      group.set(option, bad);
      state.options.set("param_groups", Value::list(group));
      refuses<ValueError>([&] { optimizer->load_state_dict(state); }, message);
    }
  }
}

TEST_P(OptimizerRefusals, CountsOfStepsThatNobodyMade) {
  const auto load = [&](const Tensor& step) {
    OptimizerState state = saved(*optimizer);
    for (auto& [key, tensor] : state.tensors) {
      if (key == "0.step") tensor = step;
    }
    optimizer->load_state_dict(state);
  };
  const std::vector<std::string> message{
      "Optimizer.load_state_dict: expected a whole 0.step from 0 to 2^53, got ", "check the file"};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const double bad : {kInf, -kInf, kNan, -1.0, 2.5})
      refuses<ValueError>([&] { load(tensor(bad, {.dtype = dtype})); }, message);
  }
  for (const std::int64_t bad : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()})
    refuses<ValueError>([&] { load(full({}, bad, {.dtype = DType::i64})); }, message);
  for (const DType dtype : {DType::f16, DType::f32, DType::i32, DType::i64}) {
    load(tensor(7, {.dtype = dtype}));
    optimizer->step();
    EXPECT_EQ(optimizer->state_dict().tensors.front().second.item<std::int64_t>(), 8);
  }
}

TEST_P(OptimizerRefusals, RatesOutOfRange) {
  for (const double bad : {-0.5, kInf, kNan})
    refuses<ValueError>([&] { optimizer->set_lr(bad); }, {"Optimizer.set_lr: expected finite lr >= 0"});
  refuses<IndexError>([&] { optimizer->set_lr(0.1, 1); }, {"a group below 1", "got 1"});
  refuses<IndexError>([&] { static_cast<void>(optimizer->rates(1)); }, {"a group below 1"});
  if (!optimizer->momentum()) {
    refuses<StateError>([&] { optimizer->set_momentum(0.5); }, {"got " + GetParam().optimizer});
    return;
  }
  for (const double bad : {-0.5, 1.0, kInf, kNan})
    refuses<ValueError>([&] { optimizer->set_momentum(bad); }, {"expected momentum in [0, 1)"});
}

TEST_P(OptimizerRefusals, GroupsThatCannotBeAdded) {
  const auto add = [&](const NamedTensors& group) {
    return [this, group] { GetParam().add_group(*optimizer, group, Value::Map{}); };
  };
  const std::string op = "Optimizer.add_param_group: expected ";
  refuses<ValueError>(add({}), {op + "at least one parameter, got none; "});
  refuses<ValueError>(add({{"w", p}}), {op + "each parameter once, got w twice; "});
  refuses<ValueError>(add({{"v", other}, {"w", other}}), {op + "each parameter once, got w twice; "});
  refuses<ValueError>(add({{"", other}, {"", Tensor()}}), {op + "defined parameters"});
  refuses<AutogradError>(add({{"", other * 2.0}}), {op + "leaf parameters"});
  refuses<DTypeError>(add({{"", ones({2}, {.dtype = DType::i64})}}), {op + "floating parameters, got i64"});
  refuses<ShapeError>(add({{"", alias(other, {3}, {0}, 0, false)}}), {op, "strides [0]"});
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    const Tensor narrow = ones({2}).to(dtype).requires_grad_();
    refuses<DTypeError>(add({{"", narrow}}), {op, "got " + to_string(dtype) + ", which is for storage"});
    EXPECT_THROW((void)GetParam().make({narrow}), DTypeError);
  }
}

TEST_P(OptimizerRefusals, AnAddedGroupHasItsOwnOptionsAndStartsAnew) {
  GetParam().add_group(*optimizer, {{"added", other}}, Value::Map{{"lr", 0.25}});
  EXPECT_EQ(optimizer->num_groups(), 2U);
  EXPECT_EQ(optimizer->lr(1), 0.25);
  EXPECT_EQ(Value(optimizer->lr(0)), GetParam().options.at("lr"));
  EXPECT_EQ(optimizer->parameter_name(1), "added");
  const Tensor alone = parameter_of({1});
  const auto reference = GetParam().make({alone}, Value::Map{{"lr", 0.25}});
  for (int step = 0; step < 4; ++step) {
    other.set_grad(tensor({0.5 + step}, {.dtype = DType::f64}));
    alone.set_grad(tensor({0.5 + step}, {.dtype = DType::f64}));
    optimizer->step();
    reference->step();
    EXPECT_EQ(bits(other), bits(alone));
  }
  EXPECT_EQ(state_of(*optimizer, "0.step").item<std::int64_t>(), 5);
  EXPECT_EQ(state_of(*optimizer, "1.step").item<std::int64_t>(), 4);
}

}  // namespace
}  // namespace mezzo::optim
