// The step that all optimizers share: checks, f32 masters and state first, then one multi-tensor update
// per group, then versions and 16-bit copies. State dicts are in optimizer_state.cpp.
#include "mezzo/optim/optimizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/gradient_locks.h"
#include "mezzo/autograd/half_copy.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/ops/factory.h"
#include "mezzo/optim/detail/packed_state.h"

namespace mezzo::optim {

namespace {

std::atomic<std::uint64_t> next_id{1};

/// Fills a view that has no data yet. In place, because a ParameterUpdate takes a kilobyte and a step makes
/// one for every parameter.
void set_view(kernels::View& view, const Tensor& tensor) {
  if (!tensor.defined()) return;
  view.data = tensor.impl().data();
  view.dtype = tensor.dtype();
  view.shape = tensor.shape();
  view.strides = tensor.strides();
}

/// set_view for a 16-bit copy of `leaf`; an empty `copy`: there is none.
void set_view(kernels::View& view, const Ref<Storage>& copy, DType dtype, const Tensor& leaf) {
  if (!copy) return;
  view.data = copy->data();
  view.dtype = dtype;
  view.shape = leaf.shape();
  view.strides = autograd::half_copy_strides(leaf.impl());
}

}  // namespace

void require_own_memory(std::string_view op, const Tensor& tensor, const std::string& what) {
  if (tensor.is_contiguous()) return;
  const Shape& shape = tensor.shape();
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) dims.emplace_back(tensor.strides()[d], shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;  // largest offset within the dims seen so far
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) {
      throw ShapeError(op, what + " with memory of its own for each element",
                       "strides " + to_string(tensor.strides()), "use a clone() of it");
    }
    reach += (size - 1) * stride;
  }
}

void require_parameter(std::string_view op, const Tensor& tensor, Device device) {
  if (!tensor.defined())
    throw ValueError(op, "defined parameters", "an undefined tensor", "leave absent ones out");
  require_compute_dtype(op, tensor.dtype());
  if (!is_floating(tensor.dtype())) {
    throw DTypeError(op, "floating parameters", to_string(tensor.dtype()), "leave buffers and counters out");
  }
  if (!tensor.is_leaf()) {
    throw AutogradError(op, "leaf parameters", "a result of recorded ops",
                        "pass the tensor it was computed from");
  }
  if (tensor.is_inference()) {
    throw AutogradError(op, "normal parameters", "an inference tensor",
                        "make the model outside of InferenceMode");
  }
  if (!(tensor.device() == device)) {
    throw DeviceError(op, "all parameters on " + to_string(device), to_string(tensor.device()),
                      "use one optimizer per device");
  }
  require_own_memory(op, tensor, "a parameter");
}

void require_option(std::string_view optimizer, bool good, std::string_view expected, double got) {
  if (good) return;
  // A Value prints the shortest digits that mean the number, which JSON has no words for if it is not finite.
  const std::string number = std::isfinite(got) ? Value(got).to_string() : std::to_string(got);
  throw ValueError(optimizer, std::string(expected), number, "check the options");
}

void require_not_negative(std::string_view optimizer, NamedNumbers numbers) {
  for (const auto& [name, number] : numbers)
    require_option(optimizer, number >= 0 && std::isfinite(number), "finite " + std::string(name) + " >= 0",
                   number);
}

void require_below_one(std::string_view optimizer, NamedNumbers numbers) {
  for (const auto& [name, number] : numbers)
    require_option(optimizer, number >= 0 && number < 1, std::string(name) + " in [0, 1)", number);
}

MasterWeights MasterWeights::from_value(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.as_string() == "split") return split;
  throw ValueError("MasterWeights", "true, false or \"split\"", value.to_string(), "check the options");
}

Value MasterWeights::to_value() const { return kind_ == split ? Value("split") : Value(kind_ == f32); }

void check_narrow_parameters(std::string_view optimizer, MasterWeights masters, bool stochastic_rounding,
                             bool is_elementwise) {
  if (masters && stochastic_rounding)
    throw ValueError(optimizer, "master_weights or stochastic_rounding", "both",
                     "masters lose nothing that rounding at random could keep; leave one out");
  if (is_elementwise || (masters != MasterWeights::split && !stochastic_rounding)) return;
  throw ValueError(optimizer, "f32 masters of 16-bit parameters, or none",
                   stochastic_rounding ? "stochastic_rounding = true" : "master_weights = split",
                   "SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam and Lion can have it");
}

Optimizer::Optimizer(const std::vector<const NamedTensors*>& groups) : id_(next_id.fetch_add(1)) {
  bool any = false;
  for (const NamedTensors* list : groups) {
    if (!any && !list->empty() && list->front().second.defined()) device_ = list->front().second.device();
    any = any || !list->empty();
    groups_.push_back(new_group("Optimizer", *list));
  }
  if (!any) throw ValueError("Optimizer", "at least one parameter", "none", "pass net.parameters()");
}

Optimizer::Group Optimizer::new_group(std::string_view op, const NamedTensors& parameters) {
  std::set<const TensorImpl*> seen;
  for (const Tensor& parameter : this->parameters()) seen.insert(parameter.ref().get());
  Group group;
  for (const auto& [path, tensor] : parameters) {
    require_parameter(op, tensor, device_);
    if (!seen.insert(tensor.ref().get()).second) {
      throw ValueError(op, "each parameter once",
                       (path.empty() ? "a tensor of shape " + to_string(tensor.shape()) : path) + " twice",
                       "list it once, in one group");
    }
    Parameter parameter;
    parameter.tensor = tensor;
    parameter.name = path;
    group.parameters.push_back(std::move(parameter));
  }
  return group;
}

void Optimizer::add_group(std::string_view op, const NamedTensors& parameters) {
  if (parameters.empty()) throw ValueError(op, "at least one parameter", "none", "leave the empty group out");
  groups_.push_back(new_group(op, parameters));
  break_recordings();
}

Optimizer::~Optimizer() {
  leave_recordings();
  for_each_parameter([](const Tensor& parameter, std::size_t /*i*/) { release_half_copies(parameter); });
}

void Optimizer::write_rates(std::size_t group) {
  static_assert(sizeof(kernels::Rates) == 2 * sizeof(double));
  Group& target = groups_[group];
  if (!target.rates.defined()) {
    target.rates = empty({2}, {.dtype = DType::f64, .device = device_});
    if (!device_.is_cpu()) target.ticket = zeros({}, {.dtype = DType::i32, .device = device_});
  }
  const kernels::Rates rates = group_rates(group);
  backend(device_).copy_from_host(target.rates.impl().data(), &rates, sizeof(rates), device_.index);
}

kernels::Rates Optimizer::rates_now(std::size_t group) const {
  kernels::Rates rates = group_rates(group);
  const Tensor& shared = groups_[group].rates;
  if (!rates_shared_ || !shared.defined()) return rates;
  const HostRead read("Optimizer.lr");
  backend(device_).copy_to_host(&rates, shared.impl().data(), sizeof(rates), device_.index);
  return rates;
}

Tensor Optimizer::rates(std::size_t group) {
  require_group("Optimizer.rates", group);
  if (!groups_[group].rates.defined()) write_rates(group);
  rates_shared_ = true;
  return groups_[group].rates;
}

void Optimizer::require_group(std::string_view op, std::size_t group) const {
  if (group < groups_.size()) return;
  throw IndexError(op, "a group below " + std::to_string(groups_.size()), std::to_string(group),
                   "num_groups() tells how many there are");
}

double Optimizer::lr(std::size_t group) const {
  require_group("Optimizer.lr", group);
  return rates_now(group).lr;
}

void Optimizer::set_lr(double lr, std::size_t group) {
  require_group("Optimizer.set_lr", group);
  require_not_negative("Optimizer.set_lr", {{"lr", lr}});
  kernels::Rates rates = rates_now(group);
  rates.lr = lr;
  set_group_rates(group, rates);
  write_rates(group);
}

std::optional<double> Optimizer::momentum(std::size_t group) const {
  require_group("Optimizer.momentum", group);
  return has_momentum() ? std::optional(rates_now(group).momentum) : std::nullopt;
}

void Optimizer::set_momentum(double momentum, std::size_t group) {
  constexpr std::string_view op = "Optimizer.set_momentum";
  require_group(op, group);
  if (!has_momentum())
    throw StateError(op, "an optimizer with momentum or beta1", std::string(name()), "use one that has it");
  require_below_one(op, {{"momentum", momentum}});
  kernels::Rates rates = rates_now(group);
  rates.momentum = momentum;
  const std::size_t buffers = state_names(group).buffers.size();
  set_group_rates(group, rates);
  if (state_names(group).buffers.size() != buffers) break_recordings();
  write_rates(group);
}

void Optimizer::zero_grad(bool set_to_none) {
  const Phase phase("zero_grad");
  const NoGrad no_grad;
  for (const Group& group : groups_) {
    for (const Parameter& parameter : group.parameters) {
      if (set_to_none) {
        parameter.tensor.set_grad({});
        continue;
      }
      autograd::AutogradMeta* const meta = autograd::meta_of(parameter.tensor);
      if (meta == nullptr) continue;
      const std::scoped_lock lock(meta->lock);  // no backward of another thread adds to it meanwhile
      const Tensor gradient = parameter.tensor.grad();
      if (!gradient.defined()) continue;
      // A gradient of create_graph has a history, which zeros do not.
      if (gradient.requires_grad()) parameter.tensor.set_grad(gradient.detach());
      gradient.zero_();
    }
  }
}

void Optimizer::warn_without_master(std::size_t group, const Parameter& parameter) const {
  static WarningSite site("parameters_without_masters");
  if (!site.is_fresh()) return;
  const std::vector<Parameter>& all = groups_[group].parameters;
  site.warn("Optimizer.step", "f32 parameters, or 16-bit ones with f32 masters",
            to_string(parameter.tensor.dtype()) + " of " +
                parameter_name(group, static_cast<std::size_t>(&parameter - all.data())) +
                " without a master",
            "small updates are lost in rounding: keep the model in f32 and let autocast cast it, or give the "
            "optimizer master_weights = true or stochastic_rounding = true");
}

void Optimizer::require_master(std::string_view op, MasterWeights masters, const std::string& name,
                               const Tensor& parameter) {
  if (masters != MasterWeights::split || parameter.dtype() != DType::f16) return;
  throw DTypeError(op, "bf16 parameters for split masters, whose upper half a bf16 number is",
                   "f16" + (name.empty() ? "" : " of " + name), "use bf16, or master_weights = true");
}

/// Makes a parameter's master, or brings it up to date when somebody else wrote to the parameter. No host
/// read. In place, as a captured step has its address.
void Optimizer::prepare_master(std::size_t group, const StateNames& names, Parameter& parameter) const {
  if (!is_16bit(parameter.tensor.dtype()) || !names.masters) {
    if (is_16bit(parameter.tensor.dtype()) && !names.stochastic_rounding)
      warn_without_master(group, parameter);
    parameter.master = Tensor();
    return;
  }
  const Tensor tensor = parameter.tensor.detach();
  Tensor& master = parameter.master;
  const bool may_differ = parameter.seen != tensor.version() || tensor.impl().storage->may_change_unseen();
  if (names.masters == MasterWeights::split) {
    require_master(name(), names.masters, parameter.name, tensor);
    if (!master.defined())
      master = zeros_like(tensor, DType::i16);
    else if (master.dtype() == DType::f32)
      master = split_masters(may_differ ? followed_masters(master, tensor) : master, tensor);
  } else if (!master.defined()) {
    master = tensor.to(DType::f32);
  } else if (may_differ) {
    master.copy_(followed_masters(master, tensor));
  }
  parameter.seen = tensor.version();
}

/// Makes the state that a parameter's first step needs as it is before one: a step that is skipped leaves it
/// as it should be.
void Optimizer::prepare(std::size_t group, const StateNames& names, Parameter& parameter) const {
  const Tensor& tensor = parameter.tensor;
  prepare_master(group, names, parameter);
  if (!parameter.step.defined()) parameter.step = zeros({}, {.dtype = DType::i64, .device = device_});
  if (!parameter.carried.defined() && !names.carried.empty())
    parameter.carried = full({}, 1.0, {.dtype = DType::f64, .device = device_});
  const DType dtype = tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (std::size_t i = 0; i < names.buffers.size(); ++i) {
    if (parameter.buffers[i].defined()) continue;
    if (names.packed && takes_8_bits(tensor)) {
      const PackedMoments moments = zero_moments(tensor.detach(), is_nonnegative(names.buffers[i]));
      parameter.buffers[i] = moments.codes;
      parameter.scales[i] = moments.scales;
    } else {
      parameter.buffers[i] =
          full(tensor.shape(), initial_value(group, i), {.dtype = dtype, .device = device_});
    }
  }
}

void Optimizer::add_update(const Parameter& parameter, const Tensor& gradient,
                           const std::array<Ref<Storage>, 2>& copies, const StateNames& names,
                           std::size_t number) {
  kernels::ParameterUpdate& update = updates_.emplace_back();
  const bool has_f32_master = parameter.master.defined() && parameter.master.dtype() == DType::f32;
  set_view(update.value, has_f32_master ? parameter.master : parameter.tensor);
  set_view(update.gradient, gradient);
  for (std::size_t i = 0; i < parameter.buffers.size(); ++i) {
    set_view(update.state[i], parameter.buffers[i]);
    if (!parameter.scales[i].defined()) continue;
    update.scales[i] = static_cast<float*>(parameter.scales[i].impl().data());
    if (i < names.buffers.size() && is_nonnegative(names.buffers[i])) update.nonnegative |= 1U << i;
  }
  for (std::size_t i = 0; i < copies.size(); ++i)
    set_view(update.copies[i], copies[i], kHalfCopyTypes[i], parameter.tensor);
  update.is_split = parameter.master.defined() && !has_f32_master;
  set_view(update.copies[2], has_f32_master ? parameter.tensor : parameter.master);
  const ParameterPlace place =
      places_.empty() ? ParameterPlace{static_cast<std::uint32_t>(number)} : places_[number];
  update.rounds_at_random = names.stochastic_rounding && is_16bit(parameter.tensor.dtype());
  update.number = place.parameter;
  update.first_element = place.element;
  update.step = static_cast<std::int64_t*>(parameter.step.impl().data());
  if (parameter.carried.defined()) update.carried = static_cast<double*>(parameter.carried.impl().data());
}

kernels::UpdateControl Optimizer::control_of(const Group& group, const ScalerControl& control) {
  kernels::UpdateControl result{.rates = static_cast<const kernels::Rates*>(group.rates.impl().data()),
                                .record = control.record,
                                .unscale = control.unscale,
                                .write_unscaled = control.write_unscaled};
  if (group.ticket.defined()) result.ticket = static_cast<std::uint32_t*>(group.ticket.impl().data());
  return result;
}

std::size_t Optimizer::add_step_hook(bool is_before, mezzo::detail::Function<void(Optimizer&)> hook) {
  if (!hook) throw ValueError("Optimizer.register_step_hook", "a hook", "an empty function", "leave it out");
  step_hooks_.push_back({next_step_hook_, is_before, std::move(hook)});
  return next_step_hook_++;
}

std::size_t Optimizer::register_step_pre_hook(mezzo::detail::Function<void(Optimizer&)> hook) {
  return add_step_hook(true, std::move(hook));
}

std::size_t Optimizer::register_step_post_hook(mezzo::detail::Function<void(Optimizer&)> hook) {
  return add_step_hook(false, std::move(hook));
}

void Optimizer::remove_step_hook(std::size_t id) {
  std::erase_if(step_hooks_, [id](const StepHook& hook) { return hook.id == id; });
}

void Optimizer::run_step_hooks(bool is_before) {
  if (step_hooks_.empty()) return;
  // A copy, as a hook may change the list.
  for (const StepHook& hook : std::vector<StepHook>(step_hooks_)) {
    if (hook.is_before == is_before) hook.call(*this);
  }
}

void Optimizer::step(const ScalerControl& control) {
  const Phase phase("step");
  run_step_hooks(true);
  update_all(control);
  run_step_hooks(false);
}

void Optimizer::update_all(const ScalerControl& control) {
  const PlainOps plain;
  const OpObserverGuard no_observer{nullptr};  // masters and copies made here are none of the program's ops
  autograd::GradientLocks gradients;           // also of parameters without one: another thread may bring it
  for_each_parameter([&](const Tensor& parameter, std::size_t /*i*/) { gradients.add(parameter); });
  gradients.lock();
  const bool recording = is_recording();
  // First all that can fail, then the kernels.
  updates_.clear();
  copies_.clear();
  SmallVector<std::size_t, 8> ends;  // per group, the end of its updates
  std::size_t number = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].rates.defined() && !recording) write_rates(g);
    const StateNames names = state_names(g);
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i, ++number) {
      Parameter& parameter = groups_[g].parameters[i];
      const Tensor& gradient = autograd::locked_grad(parameter.tensor);
      if (!gradient.defined()) continue;
      require_parameter("Optimizer", parameter.tensor, device_);
      if (recording) record_update(g, i, names);
      prepare(g, names, parameter);
      copies_.push_back(writable_half_copies(parameter.tensor));
      add_update(parameter, gradient, copies_.back(), names, number);
    }
    ends.push_back(updates_.size());
  }
  std::size_t begin = 0;
  for (std::size_t g = 0; g < groups_.size(); begin = ends[g++]) {
    if (begin == ends[g]) continue;
    update(g, std::span(updates_).subspan(begin, ends[g] - begin), control_of(groups_[g], control));
    for (Parameter& parameter : groups_[g].parameters) {
      const Tensor& gradient = autograd::locked_grad(parameter.tensor);
      if (!gradient.defined()) continue;
      parameter.tensor.impl().storage->bump_version();
      parameter.seen = parameter.tensor.version();
      if (control.unscale && control.write_unscaled) gradient.impl().storage->bump_version();
      half_copies_written(parameter.tensor);
    }
  }
  copies_.clear();
  ++step_calls_;
}

Tensor Optimizer::step(const mezzo::detail::Function<Tensor()>& closure) {
  if (!closure)
    throw ValueError("Optimizer.step", "a closure", "an empty function", "call step() without one");
  Tensor loss;
  {
    const EnableGrad recording;
    loss = closure();
  }
  step();
  return loss;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for_each_parameter([&](const Tensor& parameter, std::size_t /*i*/) { all.push_back(parameter); });
  return all;
}

std::pair<std::size_t, std::size_t> Optimizer::locate(std::size_t i) const {
  std::size_t first = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (i < first + groups_[g].parameters.size()) return {g, i - first};
    first += groups_[g].parameters.size();
  }
  throw IndexError("Optimizer", "a parameter below " + std::to_string(first), std::to_string(i),
                   "parameters() lists them");
}

std::string Optimizer::parameter_name(std::size_t i) const {
  const auto [group, position] = locate(i);
  const Parameter& parameter = groups_[group].parameters[position];
  if (!parameter.name.empty()) return parameter.name;
  return "parameter " + std::to_string(i) + " " + to_string(parameter.tensor.shape());
}

std::string Optimizer::parameter_name(std::size_t group, std::size_t position) const {
  std::size_t i = position;
  for (std::size_t g = 0; g < group; ++g) i += groups_[g].parameters.size();
  return parameter_name(i);
}

bool Optimizer::has_master(std::size_t i) const {
  const auto [group, position] = locate(i);
  return is_16bit(groups_[group].parameters[position].tensor.dtype()) && state_names(group).masters;
}

NamedTensors unnamed(const std::vector<Tensor>& parameters) {
  NamedTensors list;
  for (const Tensor& parameter : parameters) list.emplace_back("", parameter);
  return list;
}

}  // namespace mezzo::optim
