// An optimizer is its options' type: constructors, access by group, the way into a state dict, and, by the
// trait AlgorithmOf, what the algorithm keeps and does.
#pragma once

#include <concepts>
#include <vector>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// What an algorithm keeps and does, by the type of its options: a specialisation beside the algorithm's
/// functor, derived from AlgorithmDefaults. Optimizer says what each function is.
///
///    static BufferNames buffers(const Options&);
///    static void update(const Options&, Device, Updates, const kernels::UpdateControl&);
template <class Options>
struct AlgorithmOf;

/// The parts of an algorithm that most do without.
struct AlgorithmDefaults {
  static constexpr std::string_view kCarried = {};  ///< name of the number that it carries per parameter
  /// The first value of buffer i.
  template <class Options>
  static double initial_value(const Options& /*o*/, std::size_t /*i*/) {
    return 0;
  }
  /// Throws for a parameter of a shape that it cannot take.
  template <class Options>
  static void require_fitting(const Options& /*o*/, const std::string& /*name*/, const Tensor& /*t*/) {}
};

/// Optimizer with `Options` per group: a struct with `kOptimizer` (its name), `lr`, `master_weights`,
/// `stochastic_rounding`, `fields()` (MEZZO_FIELDS) and `check()` (throws ValueError); `momentum` or `beta1`,
/// where it has one, is what momentum() means. What it does is AlgorithmOf<Options>, which has to be there
/// where this class is instantiated.
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

 protected:
  /// Names of the state that it keeps under these options of a group in a state dict. Throws: ValueError for
  /// options that are not valid.
  [[nodiscard]] StateNames state_names_with(const Value& saved) const;

 private:
  // Nobody but Optimizer calls these. A derived class instantiates those that are in the class, so
  // AlgorithmOf is asked by those that are not.
  [[nodiscard]] std::string_view name() const override { return Options::kOptimizer; }
  [[nodiscard]] StateNames state_names(std::size_t group) const override {
    return names_with(options_[group]);
  }
  [[nodiscard]] double initial_value(std::size_t group, std::size_t i) const override;
  void update(std::size_t group, Updates updates, const kernels::UpdateControl& control) const override;
  [[nodiscard]] Value group_options(std::size_t group, const kernels::Rates& rates) const override {
    return attrs_to_value(with_rates(options_[group], rates));
  }
  void set_group_options(std::size_t group, const Value& saved) override;
  [[nodiscard]] bool has_momentum() const override {
    Options options;
    return momentum_of(options) != nullptr;
  }
  [[nodiscard]] kernels::Rates group_rates(std::size_t group) const override {
    Options options = options_[group];
    const double* const momentum = momentum_of(options);
    return {options.lr, momentum != nullptr ? *momentum : 0};
  }
  void set_group_rates(std::size_t group, const kernels::Rates& rates) override {
    options_[group] = with_rates(options_[group], rates);
  }

  static std::vector<const NamedTensors*> lists(const std::vector<ParamGroup<Options>>& groups);
  static void check(const Options& options);
  static void check(const ParamGroup<Options>& group);
  [[nodiscard]] static StateNames names_with(const Options& options);
  [[nodiscard]] static Options parsed(const Value& saved);
  [[nodiscard]] static bool is_packed(const Options& options) {
    if constexpr (requires { options.state_bits; })
      return options.state_bits == 8;
    else
      return false;
  }
  /// The option that is the momentum; nullptr: there is none.
  [[nodiscard]] static double* momentum_of(Options& options) {
    if constexpr (requires { options.momentum; })
      return &options.momentum;
    else if constexpr (requires { options.beta1; })
      return &options.beta1;
    else
      return nullptr;
  }
  [[nodiscard]] static Options with_rates(Options options, const kernels::Rates& rates) {
    options.lr = rates.lr;
    if (double* const momentum = momentum_of(options)) *momentum = rates.momentum;
    return options;
  }

  std::vector<Options> options_;
};

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
    check(group);
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
  check(group);
  options_.reserve(options_.size() + 1);
  this->add_group("Optimizer.add_param_group", group.parameters);
  options_.push_back(group.options);
}

template <class Options>
void TypedOptimizer<Options>::check(const Options& options) {
  options.check();
  check_narrow_parameters(
      Options::kOptimizer, options.master_weights, options.stochastic_rounding,
      !requires { Options::kNeedsWholeParameters; });
  if constexpr (requires { options.state_bits; })
    require_option(Options::kOptimizer, options.state_bits == 8 || options.state_bits == 32,
                   "state_bits = 8 or 32", static_cast<double>(options.state_bits));
}

template <class Options>
void TypedOptimizer<Options>::check(const ParamGroup<Options>& group) {
  check(group.options);
  for (const auto& [path, parameter] : group.parameters) {
    if (!parameter.defined()) continue;
    AlgorithmOf<Options>::require_fitting(group.options, path, parameter);
    Optimizer::require_master(Options::kOptimizer, group.options.master_weights, path, parameter);
  }
}

/// How masters and moments are kept is this optimizer's own matter, whatever the other one had.
template <class Options>
void TypedOptimizer<Options>::set_group_options(std::size_t group, const Value& saved) {
  Options options = parsed(saved);
  const MasterWeights own = options_[group].master_weights;
  if (own && options.master_weights) options.master_weights = own;
  if constexpr (requires { options.state_bits; }) options.state_bits = options_[group].state_bits;
  options_[group] = options;
}

template <class Options>
StateNames TypedOptimizer<Options>::state_names_with(const Value& saved) const {
  return names_with(parsed(saved));
}

template <class Options>
double TypedOptimizer<Options>::initial_value(std::size_t group, std::size_t i) const {
  return AlgorithmOf<Options>::initial_value(options_[group], i);
}

template <class Options>
void TypedOptimizer<Options>::update(std::size_t group, Updates updates,
                                     const kernels::UpdateControl& control) const {
  AlgorithmOf<Options>::update(options_[group], this->device(), updates, control);
}

template <class Options>
StateNames TypedOptimizer<Options>::names_with(const Options& options) {
  return {AlgorithmOf<Options>::buffers(options), AlgorithmOf<Options>::kCarried, options.master_weights,
          options.stochastic_rounding, is_packed(options)};
}

template <class Options>
Options TypedOptimizer<Options>::parsed(const Value& saved) {
  Value::Map fields = saved.as_map();
  std::erase_if(fields, [](const auto& field) { return field.first == "num_parameters"; });
  const auto options = attrs_from_value<Options>(Options::kOptimizer, Value(std::move(fields)));
  check(options);
  return options;
}

template <class Options>
std::vector<const NamedTensors*> TypedOptimizer<Options>::lists(
    const std::vector<ParamGroup<Options>>& groups) {
  std::vector<const NamedTensors*> result;
  for (const auto& group : groups) result.push_back(&group.parameters);
  return result;
}

}  // namespace mezzo::optim
