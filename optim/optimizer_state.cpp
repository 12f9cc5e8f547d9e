// Saving and restoring an optimizer. Everything that can fail comes before the first change.
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kLoad = "Optimizer.load_state_dict";
constexpr std::string_view kOtherParameters = "it was saved with other parameters";

/// Tensors by name. Throws StateError when one is undefined or given twice.
std::map<std::string, Tensor> by_name(const std::vector<std::pair<std::string, Tensor>>& list) {
  std::map<std::string, Tensor> map;
  for (const auto& [key, tensor] : list) {
    if (!tensor.defined())
      throw StateError(kLoad, "defined tensors", "an undefined " + key, "leave absent ones out");
    if (!map.emplace(key, tensor).second)
      throw StateError(kLoad, "each tensor once", key + " twice", "check the file");
  }
  return map;
}

/// A copy of a saved tensor as an optimizer keeps it.
Tensor copied(const std::string& key, const Tensor& saved, const Shape& shape, DType dtype, Device device) {
  if (saved.shape() != shape) {
    throw ShapeError(kLoad, key + " of shape " + to_string(shape), to_string(saved.shape()),
                     kOtherParameters);
  }
  if (is_floating(dtype) && !is_floating(saved.dtype()))
    throw DTypeError(kLoad, "a floating " + key, to_string(saved.dtype()), "check the file");
  Tensor copy = empty(shape, {.dtype = dtype, .device = device});
  copy.copy_(saved.detach());
  return copy;
}

}  // namespace

template <class P, class F>
void Optimizer::each_slot(std::size_t group, std::size_t index, P& parameter, F f) const {
  const std::string prefix = std::to_string(index) + ".";
  f(prefix + "step", parameter.step);
  if (const std::string_view name = carried_name(); !name.empty())
    f(prefix + std::string(name), parameter.carried);
  std::size_t i = 0;
  for (const std::string_view name : buffer_names(group))
    f(prefix + std::string(name), parameter.buffers[i++]);
  if (is_16bit(parameter.tensor.dtype()) && master_weights(group)) f(prefix + "master", parameter.master);
}

OptimizerState Optimizer::state_dict() const {
  OptimizerState state;
  Value groups;
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    kernels::Rates rates = rates_now(g);
    // A momentum that a schedule has taken to 0 would say that there are no buffers.
    if (rates.momentum == 0) rates.momentum = group_rates(g).momentum;
    Value group = group_options(g, rates);
    group.set("num_parameters", static_cast<std::int64_t>(groups_[g].parameters.size()));
    groups.push_back(std::move(group));
    for (const Parameter& parameter : groups_[g].parameters) {
      each_slot(g, index++, parameter, [&](const std::string& key, const Tensor& tensor) {
        if (tensor.defined()) state.tensors.emplace_back(key, tensor);
      });
    }
  }
  state.options.set("optimizer", name());
  state.options.set("param_groups", std::move(groups));
  return state;
}

void Optimizer::check_groups(const OptimizerState& state) const {
  const std::string& kind = state.options.at("optimizer").as_string();
  if (kind != name()) {
    throw StateError(kLoad, "the state of " + std::string(name()), kind,
                     "load it into an optimizer of that kind");
  }
  const Value::List& groups = state.options.at("param_groups").as_list();
  if (groups.size() != groups_.size()) {
    throw StateError(kLoad, std::to_string(groups_.size()) + " parameter groups",
                     std::to_string(groups.size()), "make the optimizer with the same groups");
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t count = groups[g].at("num_parameters").as_int();
    if (count != static_cast<std::int64_t>(groups_[g].parameters.size())) {
      throw StateError(
          kLoad, std::to_string(groups_[g].parameters.size()) + " parameters in group " + std::to_string(g),
          std::to_string(count), "make the optimizer with the same parameters");
    }
  }
}

/// A parameter with its saved state, which is taken out of `saved`: either none at all, for one that never
/// had a step, or all of it. Only a master may be missing; it is made from the parameter.
Optimizer::Parameter Optimizer::loaded(std::size_t group, std::size_t index, const Parameter& parameter,
                                       TensorMap& saved) const {
  Parameter result;
  result.tensor = parameter.tensor;
  result.name = parameter.name;
  result.seen = parameter.tensor.version();
  const DType wide = parameter.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  std::string missing;
  std::size_t found = 0;
  each_slot(group, index, result, [&](const std::string& key, Tensor& slot) {
    const auto node = saved.extract(key);
    const bool is_number = &slot == &result.step || &slot == &result.carried;
    if (node.empty()) {
      if (&slot != &result.master) missing = key;
      return;
    }
    ++found;
    const DType dtype = &slot == &result.step ? DType::i64 : &slot == &result.carried ? DType::f64 : wide;
    slot = copied(key, node.mapped(), is_number ? Shape{} : parameter.tensor.shape(), dtype, device_);
    if (&slot == &result.step) require_saved_count(kLoad, key, node.mapped().item());
  });
  if (found > 0 && !missing.empty())
    throw StateError(kLoad, "all of a parameter's state", "no " + missing, "check the file");
  return result;
}

std::vector<std::vector<Optimizer::Parameter>> Optimizer::all_loaded(const OptimizerState& state) const {
  TensorMap saved = by_name(state.tensors);
  std::vector<std::vector<Parameter>> result(groups_.size());
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const Parameter& parameter : groups_[g].parameters)
      result[g].push_back(loaded(g, index++, parameter, saved));
  }
  if (!saved.empty())
    throw StateError(kLoad, "state of these parameters only", saved.begin()->first, kOtherParameters);
  return result;
}

Value Optimizer::fixed_options() const {
  Value all;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    all.push_back(group_options(g, {}));
    all.push_back(static_cast<std::int64_t>(buffer_names(g).size()));
  }
  return all;
}

/// Copies loaded state into the memory of the former state, whose addresses captured steps have.
void Optimizer::keep_memory(const Parameter& former, Parameter& loaded) const {
  const auto keep = [](const Tensor& memory, Tensor& values) {
    if (!memory.defined() || !values.defined()) return;
    memory.copy_(values);
    values = memory;
  };
  if (former.master.defined() && !loaded.master.defined() && loaded.step.defined())
    loaded.master = loaded.tensor.detach();  // as the next step would make it
  keep(former.step, loaded.step);
  keep(former.carried, loaded.carried);
  keep(former.master, loaded.master);
  for (std::size_t i = 0; i < former.buffers.size(); ++i) keep(former.buffers[i], loaded.buffers[i]);
}

void Optimizer::load_state_dict(const OptimizerState& state) {
  const NoGrad no_grad;
  const NoInputHook no_autocast;
  check_groups(state);
  const auto set_options = [&](const Value::List& options) {
    for (std::size_t g = 0; g < groups_.size(); ++g) set_group_options(g, options[g]);
  };
  Value::List before;
  for (std::size_t g = 0; g < groups_.size(); ++g) before.push_back(group_options(g, group_rates(g)));
  const Value fixed = fixed_options();
  std::vector<std::vector<Parameter>> parameters;
  try {
    set_options(state.options.at("param_groups").as_list());  // what there is to load depends on them
    parameters = all_loaded(state);
  } catch (...) {
    set_options(before);
    throw;
  }
  if (link_) {
    bool followed = fixed_options() == fixed;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = 0; i < parameters[g].size(); ++i) {
        const Parameter& former = groups_[g].parameters[i];
        keep_memory(former, parameters[g][i]);
        followed = followed && former.step.defined() == parameters[g][i].step.defined();
      }
    }
    if (!followed) break_recordings();
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].parameters = std::move(parameters[g]);
    write_rates(g);
  }
}

}  // namespace mezzo::optim
