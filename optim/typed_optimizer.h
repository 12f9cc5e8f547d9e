// The part of an optimizer that depends on its options' type: constructors, access by group, and their way
// into a state dict.
#pragma once

#include <vector>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// Optimizer with `Options` per group: a struct with `kOptimizer` (its name), `lr`, `master_weights`,
/// `fields()` and `check()` (throws ValueError); `momentum` or `beta1`, where it has one, is what momentum()
/// means. Algorithms inherit the constructors.
template <class Options>
class TypedOptimizer : public Optimizer {
 public:
  /// All parameters in one group, with names (Module::named_parameters) or without. Throws what Optimizer's
  /// constructor throws, and ValueError for options that are not valid.
  explicit TypedOptimizer(const std::vector<Tensor>& parameters, Options options = {})
      : TypedOptimizer({{unnamed(parameters), options}}) {}
  explicit TypedOptimizer(const NamedTensors& parameters, Options options = {})
      : TypedOptimizer({{parameters, options}}) {}
  /// The same with options of its own for each group.
  explicit TypedOptimizer(const std::vector<ParamGroup<Options>>& groups) : Optimizer(lists(groups)) {
    for (const auto& group : groups) {
      group.options.check();
      options_.push_back(group.options);
    }
  }
  /// Options of a group as they are now. Throws IndexError.
  [[nodiscard]] const Options& options(std::size_t group = 0) const {
    this->require_group("Optimizer.options", group);
    return options_[group];
  }
  /// One more group (torch's add_param_group): its parameters start without state. Schedulers made before
  /// leave its rates alone. Throws what the constructor throws; nothing has changed then.
  void add_param_group(const ParamGroup<Options>& group) {
    group.options.check();
    options_.reserve(options_.size() + 1);
    this->add_group("Optimizer.add_param_group", group.parameters);
    options_.push_back(group.options);
  }

 protected:
  [[nodiscard]] std::string_view name() const final { return Options::kOptimizer; }
  [[nodiscard]] Value group_options(std::size_t group, const kernels::Rates& rates) const override {
    return attrs_to_value(with_rates(options_[group], rates));
  }
  void check_group_options(const Value& options) const override { static_cast<void>(parsed(options)); }
  void set_group_options(std::size_t group, const Value& options) override {
    options_[group] = parsed(options);
  }
  [[nodiscard]] bool has_momentum() const override { return momentum_of(Options{}).has_value(); }
  [[nodiscard]] kernels::Rates group_rates(std::size_t group) const override {
    return {options_[group].lr, momentum_of(options_[group]).value_or(0)};
  }
  void set_group_rates(std::size_t group, const kernels::Rates& rates) override {
    options_[group] = with_rates(options_[group], rates);
  }
  [[nodiscard]] bool master_weights(std::size_t group) const override {
    return options_[group].master_weights;
  }

 private:
  static std::vector<const NamedTensors*> lists(const std::vector<ParamGroup<Options>>& groups) {
    std::vector<const NamedTensors*> result;
    for (const auto& group : groups) result.push_back(&group.parameters);
    return result;
  }
  [[nodiscard]] static std::optional<double> momentum_of(const Options& options) {
    if constexpr (requires { options.momentum; })
      return options.momentum;
    else if constexpr (requires { options.beta1; })
      return options.beta1;
    else
      return std::nullopt;
  }
  [[nodiscard]] static Options with_rates(Options options, const kernels::Rates& rates) {
    options.lr = rates.lr;
    if constexpr (requires { options.momentum; })
      options.momentum = rates.momentum;
    else if constexpr (requires { options.beta1; })
      options.beta1 = rates.momentum;
    return options;
  }
  [[nodiscard]] Options parsed(const Value& saved) const {
    Value::Map fields = saved.as_map();
    std::erase_if(fields, [](const auto& field) { return field.first == "num_parameters"; });
    const Options options = attrs_from_value<Options>(name(), Value(std::move(fields)));
    options.check();
    return options;
  }

  std::vector<Options> options_;
};

}  // namespace mezzo::optim
