// Optimizer, the base of all optimizers: parameter groups, a step that obeys a loss scaler's record, 16-bit
// copies kept fresh, and the state dict. An algorithm adds its options and one multi-tensor update (adagrad.h
// and adagrad.cu are the shortest example).
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/named_tensors.h"
#include "mezzo/core/scope.h"
#include "mezzo/core/value.h"
#include "mezzo/kernels/optim/optimizer.h"
#include "mezzo/kernels/scaler/scaler_record.h"

namespace mezzo::optim {

/// Parameters with their paths, as Module::named_parameters gives them.
using mezzo::NamedTensors;

/// The option `master_weights`, of 16-bit parameters: `true` keeps an f32 master of each and updates that.
/// `MasterWeights::split` makes the same steps, bit for bit, in 2 bytes a parameter in place of 4: the
/// optimizer keeps the low half of each master, and a bf16 parameter is the other half. So a parameter is its
/// master rounded half away from zero, where `true` rounds half to even, and one that somebody else writes
/// keeps its low half: its master is the written value to within half of its last place. State dicts hold f32
/// masters, and a load keeps the optimizer's own kind. f16 parameters: DTypeError.
///
/// The option `stochastic_rounding`, of 16-bit parameters without masters: a step rounds up or down at
/// random, so that the mean is what f32 has, and representable values stay. The same bits on every device,
/// for any number of threads and ranks and after a load: they depend on the number of the parameter in the
/// optimizer, the element and the count of steps alone. What is finite stays finite.
///
/// `state_bits = 8` (Adam, AdamW, SGD, Lion, RMSprop) keeps moments of parameters with 4,096 elements or more
/// in 8 bits: codes in a table of 256, and an f32 scale for each 256 elements. The update is made with the
/// new moments before they are rounded. State dicts hold codes ("0.exp_avg", u8) and scales
/// ("0.exp_avg_scale"); an optimizer loads either kind and keeps its own. Steps that are not finite are to be
/// skipped.
///
/// Sources: TransformerEngine's store_param_remainders; Dettmers et al., arXiv:2110.02861; Zamirai et al.,
/// arXiv:2010.06192.
class MasterWeights {
 public:
  enum Kind : std::uint8_t { none, f32, split };

  constexpr MasterWeights(Kind kind) : kind_(kind) {}
  constexpr MasterWeights(bool any) : kind_(any ? f32 : none) {}
  constexpr explicit operator bool() const { return kind_ != none; }
  friend constexpr bool operator==(MasterWeights, MasterWeights) = default;

  static constexpr std::string_view kTypeName = "bool or \"split\"";
  [[nodiscard]] static MasterWeights from_value(const Value& value);
  [[nodiscard]] Value to_value() const;

 private:
  Kind kind_;
};

/// Throws: ValueError in the name of `optimizer` for options that exclude each other, or that one cannot have
/// whose update of an element depends on others (not `is_elementwise`).
void check_narrow_parameters(std::string_view optimizer, MasterWeights masters, bool stochastic_rounding,
                             bool is_elementwise);

/// Parameters that share options.
template <class Options>
struct ParamGroup {
  NamedTensors parameters;
  Options options = {};
};

/// How a loss scaler takes part in a step. The record is in the memory of the parameters' device; only
/// kernels read it.
struct ScalerControl {
  const ScalerRecord* record = nullptr;  ///< skip the step on the device when found_inf is set
  bool unscale = false;  ///< multiply gradients by inv_scale inside the update, and leave them unscaled ...
  bool write_unscaled = true;  ///< ... unless this is false: then they are only read
};

/// The state for a checkpoint: options as a Value, tensors by name ("0.exp_avg"). Tensors share storage with
/// the optimizer.
struct OptimizerState {
  Value options;
  NamedTensors tensors;
};

class Remapping;
class RecordedUpdates;
class SavedState;  // optim/detail/saved_state.h

/// Names of the buffers that an algorithm keeps per parameter.
using BufferNames = SmallVector<std::string_view, 4>;

/// Names of the state that an optimizer keeps per parameter, beside its step count.
struct StateNames {
  BufferNames buffers;       ///< as large as the parameter, in the order of ParameterUpdate::state
  std::string_view carried;  ///< a number, which starts as 1; empty: none
  MasterWeights masters = MasterWeights::none;  ///< of 16-bit parameters
  bool stochastic_rounding = false;             ///< likewise
  bool packed = false;                          ///< large buffers are kept in 8 bits (option `state_bits`)
};

/// Where a parameter, or a shard of one, begins: the number of the parameter in the whole optimizer, and the
/// element of it.
struct ParameterPlace {
  std::uint32_t parameter = 0;
  std::int64_t element = 0;
};

/// The parameters that a call updates: some of one group.
using Updates = std::span<const kernels::ParameterUpdate>;

/// Base of all optimizers. Parameters are leaves on one device; groups may differ in every option. A master
/// follows its parameter: elements that somebody else has written since the last step are taken over, all
/// other elements keep their f32 value.
class Optimizer : mezzo::detail::NoCopy {
 public:
  /// Gives up the 16-bit copies that its steps kept fresh.
  virtual ~Optimizer();

  /// One update of every parameter that has a gradient. Checks everything first: when it throws, no parameter
  /// has changed. Other threads may run backward() into its parameters meanwhile: the step takes each
  /// gradient with what they add or without. (Who reads the parameters' values meanwhile may see old and new
  /// values.)
  void step() { step(ScalerControl{}); }
  /// step() under a loss scaler (GradScaler::step calls this): nothing changes, step counts included, when
  /// the record says skip.
  void step(const ScalerControl& control);
  /// step() after `closure`, with recording on, has computed the gradients: it clears them, runs the model
  /// and calls backward. Returns the closure's loss. Under a scaler GradScaler::step takes the closure.
  Tensor step(const mezzo::detail::Function<Tensor()>& closure);
  /// Drops all gradients, or, when `set_to_none` is false, fills them with zeros where they are.
  void zero_grad(bool set_to_none = true);

  /// Calls `hook` at the beginning, or at the end, of every step, also of one that a scaler skips. Returns an
  /// id for remove_step_hook. Source: torch.optim.Optimizer.register_step_pre_hook, register_step_post_hook.
  std::size_t register_step_pre_hook(mezzo::detail::Function<void(Optimizer&)> hook);
  std::size_t register_step_post_hook(mezzo::detail::Function<void(Optimizer&)> hook);
  /// Does nothing for an id that is not there.
  void remove_step_hook(std::size_t id);

  [[nodiscard]] std::size_t num_groups() const noexcept { return groups_.size(); }
  /// The learning rate of a group: one host read once rates() was called, which lets it change on the device.
  /// Setting it writes to the device and reads nothing back. Throws: ValueError unless it is finite and >= 0,
  /// IndexError.
  [[nodiscard]] double lr(std::size_t group = 0) const;
  void set_lr(double lr, std::size_t group = 0);
  /// The momentum of a group, or beta1 of algorithms that have one, likewise. Empty for an algorithm with
  /// neither; setting it then throws StateError, and ValueError outside [0, 1).
  [[nodiscard]] std::optional<double> momentum(std::size_t group = 0) const;
  void set_momentum(double momentum, std::size_t group = 0);
  /// Where the next step reads learning rate and momentum (0 without one) of a group: f64 [2] on the device.
  /// For schedules that run there. Throws: IndexError.
  [[nodiscard]] Tensor rates(std::size_t group);
  /// Calls of step() so far, skipped ones included; a replayed CapturedStep makes none.
  [[nodiscard]] std::uint64_t step_calls() const noexcept { return step_calls_; }
  /// All parameters, group by group.
  [[nodiscard]] std::vector<Tensor> parameters() const;
  /// Calls f(parameter, i) for each in that order, where they lie.
  template <class F>
  void for_each_parameter(F f) const {
    std::size_t i = 0;
    for (const Group& group : groups_) {
      for (const Parameter& parameter : group.parameters) f(parameter.tensor, i++);
    }
  }
  /// Path of parameter i in that order, or "parameter i [shape]" when it was given without a name.
  [[nodiscard]] std::string parameter_name(std::size_t i) const;
  /// The device of the parameters.
  [[nodiscard]] Device device() const noexcept { return device_; }
  /// Whether parameter i is 16-bit and the update is made on an f32 master of it (option `master_weights`).
  [[nodiscard]] bool has_master(std::size_t i) const;
  /// Unique in this process: a scaler finds its state of the optimizer by it.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  /// Options and, for each parameter that has had a step, its buffers; split masters as f32 tensors of their
  /// own.
  [[nodiscard]] virtual OptimizerState state_dict() const;
  /// Restores options and state (copied in; into the memory that it has, once a step was captured). Throws:
  /// StateError, ShapeError or DTypeError when it is not of this kind of optimizer with these parameters,
  /// ValueError for options or counts of steps that are not valid; nothing has changed then.
  virtual void load_state_dict(const OptimizerState& state);

  /// For gradients that processes share out among them: a loss scaler calls `agree` with its record, in the
  /// memory of device(), once it has looked at this process's gradients, and `agree` sets found_inf where any
  /// process has found one. Called by GradScaler::unscale_ and step. Empty: this process decides alone.
  using FoundInfAgreement = mezzo::detail::Function<void(ScalerRecord* record)>;
  void set_found_inf_agreement(FoundInfAgreement agree) { found_inf_agreement_ = std::move(agree); }
  /// Whether its parameters are this process's shards of a model's.
  [[nodiscard]] bool is_sharded() const noexcept { return static_cast<bool>(found_inf_agreement_); }
  void agree_on_found_inf(ScalerRecord* record) const {
    if (found_inf_agreement_) found_inf_agreement_(record);
  }

 protected:
  struct Parameter {
    Tensor tensor;
    std::string name;
    /// Of a 16-bit parameter: f32 values, or the remainders (i16) of a split one. A split one is f32 between
    /// a load and the next step, as the parameter may be loaded in between.
    Tensor master;
    std::uint32_t seen = 0;  ///< version of `tensor` that `master` goes with
    Tensor step;             ///< i64, 0-dim: updates so far; undefined before the first
    Tensor carried;          ///< f64, 0-dim, of algorithms with a carried_name
    std::array<Tensor, kernels::kMaxBuffers> buffers;  ///< the algorithm's state, or its codes (u8) ...
    std::array<Tensor, kernels::kMaxBuffers> scales;   ///< ... with these scales
  };
  struct Group {
    std::vector<Parameter> parameters;
    Tensor rates;   ///< kernels::Rates on the device; undefined before they are needed
    Tensor ticket;  ///< kernels::UpdateControl::ticket; undefined on the CPU
  };

  /// Throws for an empty list, a parameter that is no floating leaf, given twice, or on another device than
  /// the first.
  explicit Optimizer(const std::vector<const NamedTensors*>& groups);
  /// One more group, under the same conditions, in the name of `op`; nothing has changed when it throws.
  void add_group(std::string_view op, const NamedTensors& parameters);
  /// Throws: IndexError in the name of `op` for a group that is not there.
  void require_group(std::string_view op, std::size_t group) const;
  /// Random roundings take these places, one for each parameter; without them, the parameters are whole.
  void set_places(std::vector<ParameterPlace> places) { places_ = std::move(places); }
  /// Throws: DTypeError in the name of `op` for an f16 parameter with split masters.
  static void require_master(std::string_view op, MasterWeights masters, const std::string& name,
                             const Tensor& parameter);

  // An algorithm's answers about a group, by number.
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual StateNames state_names(std::size_t group) const = 0;
  /// The value that buffer i is filled with before the first step.
  [[nodiscard]] virtual double initial_value(std::size_t group, std::size_t i) const = 0;
  /// The options with these rates in them.
  [[nodiscard]] virtual Value group_options(std::size_t group, const kernels::Rates& rates) const = 0;
  /// Throws: ValueError, having changed nothing, for options that are not valid.
  virtual void set_group_options(std::size_t group, const Value& options) = 0;
  [[nodiscard]] virtual bool has_momentum() const = 0;
  /// The rates as the host has set them last.
  [[nodiscard]] virtual kernels::Rates group_rates(std::size_t group) const = 0;
  virtual void set_group_rates(std::size_t group, const kernels::Rates& rates) = 0;
  virtual void update(std::size_t group, Updates updates, const kernels::UpdateControl& control) const = 0;

 private:
  friend class Remapping;
  friend class RecordedUpdates;

  /// The step itself, without hooks.
  void update_all(const ScalerControl& control);
  [[nodiscard]] Group new_group(std::string_view op, const NamedTensors& parameters);
  void write_rates(std::size_t group);
  /// The rates that the next step takes: a host read when a schedule may have changed them on the device.
  [[nodiscard]] kernels::Rates rates_now(std::size_t group) const;
  void prepare(std::size_t group, const StateNames& names, Parameter& parameter) const;
  void prepare_master(std::size_t group, const StateNames& names, Parameter& parameter) const;
  void warn_without_master(std::size_t group, const Parameter& parameter) const;
  /// One more of `updates_`.
  void add_update(const Parameter& parameter, const Tensor& gradient,
                  const std::array<Ref<Storage>, 2>& copies, const StateNames& names, std::size_t number);
  [[nodiscard]] static kernels::UpdateControl control_of(const Group& group, const ScalerControl& control);
  /// Group and position of parameter i. Throws: IndexError.
  [[nodiscard]] std::pair<std::size_t, std::size_t> locate(std::size_t i) const;
  /// parameter_name(i) by group and position.
  [[nodiscard]] std::string parameter_name(std::size_t group, std::size_t position) const;
  [[nodiscard]] Parameter loaded(std::size_t group, std::size_t index, const Parameter& parameter,
                                 SavedState& saved) const;
  void load_buffer(Parameter& parameter, std::size_t index, std::size_t i, const StateNames& names,
                   SavedState& saved) const;
  [[nodiscard]] std::vector<std::vector<Parameter>> all_loaded(const OptimizerState& state) const;
  /// Options other than the rates, and how many buffers they ask for: what a captured step has fixed.
  [[nodiscard]] Value fixed_options() const;
  void keep_memory(const Parameter& former, Parameter& loaded) const;
  // In recorded_updates.cpp.
  [[nodiscard]] bool is_recording() const;
  /// A step that is being captured is about to update a parameter with this state. Throws StateError when it
  /// would make the state.
  void record_update(std::size_t group, std::size_t index, const StateNames& names);
  /// Captured steps cannot follow what happens now: their next replays throw.
  void break_recordings() noexcept;
  /// The optimizer is destroyed.
  void leave_recordings() noexcept;

  std::vector<Group> groups_;
  Device device_;
  std::uint64_t id_;
  std::uint64_t step_calls_ = 0;
  bool rates_shared_ = false;  ///< rates() was called
  Ref<RefCounted> link_;       ///< to captured steps (recorded_updates.cpp); made with the first
  struct StepHook {
    std::size_t id = 0;
    bool is_before = false;
    mezzo::detail::Function<void(Optimizer&)> call;
  };
  std::size_t add_step_hook(bool is_before, mezzo::detail::Function<void(Optimizer&)> hook);
  void run_step_hooks(bool is_before);

  std::vector<StepHook> step_hooks_;
  std::size_t next_step_hook_ = 0;
  FoundInfAgreement found_inf_agreement_;
  std::vector<ParameterPlace> places_;
  // The arguments that step() hands to the kernels, kept for their memory: a step asks the system for none.
  std::vector<kernels::ParameterUpdate> updates_;
  std::vector<std::array<Ref<Storage>, 2>> copies_;
};

/// Throws: ShapeError in the name of `op` when two elements of `tensor` share memory (an expanded tensor), so
/// that it cannot be written in place. `what` says what it is.
void require_own_memory(std::string_view op, const Tensor& tensor, const std::string& what);

/// Throws in the name of `op` unless `tensor` can be a parameter of an optimizer on `device`: a floating leaf
/// there with memory of its own (ValueError, DTypeError, AutogradError, DeviceError, ShapeError).
void require_parameter(std::string_view op, const Tensor& tensor, Device device);

// Checks of an algorithm's options. Each throws ValueError in the name of `optimizer`.

/// Numbers among options, with their names.
using NamedNumbers = std::initializer_list<std::pair<std::string_view, double>>;
/// Unless each is finite and not negative: learning rates, decays and the like.
void require_not_negative(std::string_view optimizer, NamedNumbers numbers);
/// Unless each lies in [0, 1): betas.
void require_below_one(std::string_view optimizer, NamedNumbers numbers);
/// Unless `good`: `expected` says what the option must be.
void require_option(std::string_view optimizer, bool good, std::string_view expected, double got);

/// A list of parameters without names.
[[nodiscard]] NamedTensors unnamed(const std::vector<Tensor>& parameters);

}  // namespace mezzo::optim
