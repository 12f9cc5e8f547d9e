// An optimizer is its options' type: constructors, access by group, the way into a state dict, and, through
// functions that stand beside the options, what the algorithm keeps and does.
#pragma once

#include <concepts>
#include <vector>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// Optimizer with `Options` per group: a struct with `kOptimizer` (its name), `lr`, `master_weights`,
/// `fields()` and `check()` (throws ValueError); `momentum` or `beta1`, where it has one, is what momentum()
/// means.
///
/// The algorithm is five functions in the namespace of `Options`, found by its type where this class is
/// instantiated; three of them may be left out (below). Optimizer says what each is.
///
///    BufferNames buffers_of(const Options&);
///    double initial_value_of(const Options&, std::size_t i);
///    std::string_view carried_by(const Options&);
///    void require_fitting(const Options&, const std::string& name, const Tensor& parameter);   // throws
///    void update_with(const Options&, Device, Updates, const kernels::UpdateControl&);
template <class Options>
class TypedOptimizer : public Optimizer {
 public:
  /// All parameters in one group, with names (Module::named_parameters) or without. Throws: what Optimizer's
  /// constructor throws, and ValueError for options that are not valid.
  explicit TypedOptimizer(const std::vector<Tensor>& parameters, Options options = {});
  explicit TypedOptimizer(const NamedTensors& parameters, Options options = {});
  /// The parameters of a module under their names: `optim::AdamW optimizer(net, {.lr = 1e-3})`.
  template <class M>
  requires requires(const M& module) {
    { module.named_parameters() } -> std::convertible_to<NamedTensors>;
  }
  explicit TypedOptimizer(const M& module, Options options = {})
      : TypedOptimizer(NamedTensors(module.named_parameters()), options) {}
  /// Groups of parameters, each with options of its own.
  explicit TypedOptimizer(const std::vector<ParamGroup<Options>>& groups);
  ~TypedOptimizer() override;
  /// Options of a group as they are now. Throws: IndexError.
  [[nodiscard]] const Options& options(std::size_t group = 0) const;
  /// One more group (torch's add_param_group): its parameters start without state. Schedulers made before
  /// leave its rates alone. Throws: what the constructor throws; nothing has changed then.
  void add_param_group(const ParamGroup<Options>& group);

 private:
  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] BufferNames buffer_names(std::size_t group) const override;
  [[nodiscard]] double initial_value(std::size_t group, std::size_t i) const override;
  [[nodiscard]] std::string_view carried_name() const override;
  [[nodiscard]] Value group_options(std::size_t group, const kernels::Rates& rates) const override;
  void check_group_options(const Value& options) const override;
  void set_group_options(std::size_t group, const Value& options) override;
  [[nodiscard]] bool has_momentum() const override;
  [[nodiscard]] kernels::Rates group_rates(std::size_t group) const override;
  void set_group_rates(std::size_t group, const kernels::Rates& rates) override;
  [[nodiscard]] bool master_weights(std::size_t group) const override;
  void update(std::size_t group, Updates updates, const kernels::UpdateControl& control) const override;

  static std::vector<const NamedTensors*> lists(const std::vector<ParamGroup<Options>>& groups);
  [[nodiscard]] static std::optional<double> momentum_of(const Options& options);
  [[nodiscard]] static Options with_rates(Options options, const kernels::Rates& rates);
  [[nodiscard]] Options parsed(const Value& saved) const;

  std::vector<Options> options_;
};

/// The first value of an algorithm's buffers where it has no `initial_value_of` of its own.
template <class Options>
double initial_value_of(const Options& /*o*/, std::size_t /*i*/) {
  return 0;
}
/// An algorithm without a `carried_by` carries no number.
template <class Options>
std::string_view carried_by(const Options& /*o*/) {
  return {};
}

/// One without a `require_fitting` takes parameters of any shape.
template <class Options>
void require_fitting(const Options& /*o*/, const std::string& /*name*/, const Tensor& /*parameter*/) {}

// --- definitions. Not in the class, where they would be inline: for those every file that makes an optimizer
// instantiates the bodies, also where the library has them (extern template).

template <class Options>
TypedOptimizer<Options>::TypedOptimizer(const std::vector<Tensor>& parameters, Options options)
    : TypedOptimizer({{unnamed(parameters), options}}) {}

template <class Options>
TypedOptimizer<Options>::TypedOptimizer(const NamedTensors& parameters, Options options)
    : TypedOptimizer({{parameters, options}}) {}

template <class Options>
TypedOptimizer<Options>::TypedOptimizer(const std::vector<ParamGroup<Options>>& groups)
    : Optimizer(lists(groups)) {
  for (const auto& group : groups) {
    group.options.check();
    for (const auto& [path, parameter] : group.parameters) require_fitting(group.options, path, parameter);
    options_.push_back(group.options);
  }
}

template <class Options>
TypedOptimizer<Options>::~TypedOptimizer() = default;

template <class Options>
const Options& TypedOptimizer<Options>::options(std::size_t group) const {
  this->require_group("Optimizer.options", group);
  return options_[group];
}

template <class Options>
void TypedOptimizer<Options>::add_param_group(const ParamGroup<Options>& group) {
  group.options.check();
  for (const auto& [path, parameter] : group.parameters) {
    if (parameter.defined()) require_fitting(group.options, path, parameter);
  }
  options_.reserve(options_.size() + 1);
  this->add_group("Optimizer.add_param_group", group.parameters);
  options_.push_back(group.options);
}

template <class Options>
std::string_view TypedOptimizer<Options>::name() const {
  return Options::kOptimizer;
}

template <class Options>
BufferNames TypedOptimizer<Options>::buffer_names(std::size_t group) const {
  return buffers_of(options_[group]);
}

template <class Options>
double TypedOptimizer<Options>::initial_value(std::size_t group, std::size_t i) const {
  return initial_value_of(options_[group], i);
}

template <class Options>
std::string_view TypedOptimizer<Options>::carried_name() const {
  return carried_by(Options{});
}

template <class Options>
void TypedOptimizer<Options>::update(std::size_t group, Updates updates,
                                     const kernels::UpdateControl& control) const {
  update_with(options_[group], this->device(), updates, control);
}

template <class Options>
Value TypedOptimizer<Options>::group_options(std::size_t group, const kernels::Rates& rates) const {
  return attrs_to_value(with_rates(options_[group], rates));
}

template <class Options>
void TypedOptimizer<Options>::check_group_options(const Value& options) const {
  static_cast<void>(parsed(options));
}

template <class Options>
void TypedOptimizer<Options>::set_group_options(std::size_t group, const Value& options) {
  options_[group] = parsed(options);
}

template <class Options>
bool TypedOptimizer<Options>::has_momentum() const {
  return momentum_of(Options{}).has_value();
}

template <class Options>
kernels::Rates TypedOptimizer<Options>::group_rates(std::size_t group) const {
  return {options_[group].lr, momentum_of(options_[group]).value_or(0)};
}

template <class Options>
void TypedOptimizer<Options>::set_group_rates(std::size_t group, const kernels::Rates& rates) {
  options_[group] = with_rates(options_[group], rates);
}

template <class Options>
bool TypedOptimizer<Options>::master_weights(std::size_t group) const {
  return options_[group].master_weights;
}

template <class Options>
std::vector<const NamedTensors*> TypedOptimizer<Options>::lists(
    const std::vector<ParamGroup<Options>>& groups) {
  std::vector<const NamedTensors*> result;
  for (const auto& group : groups) result.push_back(&group.parameters);
  return result;
}

template <class Options>
std::optional<double> TypedOptimizer<Options>::momentum_of(const Options& options) {
  if constexpr (requires { options.momentum; })
    return options.momentum;
  else if constexpr (requires { options.beta1; })
    return options.beta1;
  else
    return std::nullopt;
}

template <class Options>
Options TypedOptimizer<Options>::with_rates(Options options, const kernels::Rates& rates) {
  options.lr = rates.lr;
  if constexpr (requires { options.momentum; })
    options.momentum = rates.momentum;
  else if constexpr (requires { options.beta1; })
    options.beta1 = rates.momentum;
  return options;
}

template <class Options>
Options TypedOptimizer<Options>::parsed(const Value& saved) const {
  Value::Map fields = saved.as_map();
  std::erase_if(fields, [](const auto& field) { return field.first == "num_parameters"; });
  const Options options = attrs_from_value<Options>(name(), Value(std::move(fields)));
  options.check();
  return options;
}

}  // namespace mezzo::optim
