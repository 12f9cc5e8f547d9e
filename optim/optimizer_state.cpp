// Saving and restoring an optimizer. Everything that can fail comes before the first change.
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/optim/detail/packed_state.h"
#include "mezzo/optim/detail/saved_state.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kLoad = "Optimizer.load_state_dict";

/// Name of the scales of moments in 8 bits.
std::string scale_name(std::string_view moments) { return std::string(moments) + "_scale"; }

}  // namespace

OptimizerState Optimizer::state_dict() const {
  const PlainOps plain;
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
    const StateNames names = state_names(g);
    for (const Parameter& parameter : groups_[g].parameters) {
      const auto add = [&](std::string_view name, const Tensor& tensor) {
        if (tensor.defined()) state.tensors.emplace_back(state_key(index, name), tensor);
      };
      add("step", parameter.step);
      if (!names.carried.empty()) add(names.carried, parameter.carried);
      for (std::size_t i = 0; i < names.buffers.size(); ++i) {
        add(names.buffers[i], parameter.buffers[i]);
        add(scale_name(names.buffers[i]), parameter.scales[i]);
      }
      const bool is_split = parameter.master.defined() && parameter.master.dtype() == DType::i16;
      add(kMaster, is_split ? joined_masters(parameter.tensor.detach(), parameter.master) : parameter.master);
      ++index;
    }
  }
  state.options.set("optimizer", name());
  state.options.set("param_groups", std::move(groups));
  return state;
}

/// Buffer i of a parameter from its saved values, or from codes and their scales, whatever this optimizer
/// keeps.
void Optimizer::load_buffer(Parameter& parameter, std::size_t index, std::size_t i, const StateNames& names,
                            SavedState& saved) const {
  const std::string key = state_key(index, names.buffers[i]);
  const Tensor value = saved.take(key, parameter.tensor.shape(), false);
  if (!value.defined()) return;
  const bool nonnegative = is_nonnegative(names.buffers[i]), is_packed = value.dtype() == DType::u8;
  if (!is_packed && !is_floating(value.dtype()))
    throw DTypeError(kLoad, "a floating " + key + ", or codes (u8)", to_string(value.dtype()),
                     "check the file");
  Tensor scales;
  if (is_packed) {
    scales = saved.take(state_key(index, scale_name(names.buffers[i])),
                        {kernels::Moments8::blocks(value.numel())}, true);
    if (!scales.defined()) return;  // end_parameter says so
  }
  const TensorOptions wide{.dtype = parameter.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32,
                           .device = device_};
  const auto own = [&](const Tensor& from, const TensorOptions& options) {
    const Tensor copy = empty(from.shape(), options);
    copy.copy_(from.detach());
    return copy;
  };
  PackedMoments moments;
  if (is_packed)
    moments = {own(value, {.dtype = DType::u8, .device = device_}), own(scales, {.device = device_})};
  if (names.packed && takes_8_bits(parameter.tensor)) {
    if (!is_packed) moments = packed_moments(own(value, wide), nonnegative);
    parameter.buffers[i] = moments.codes;
    parameter.scales[i] = moments.scales;
  } else {
    parameter.buffers[i] = own(is_packed ? unpacked_moments(moments, nonnegative) : value, wide);
  }
}

/// A parameter with its saved state, which is taken out of `saved`.
Optimizer::Parameter Optimizer::loaded(std::size_t group, std::size_t index, const Parameter& parameter,
                                       SavedState& saved) const {
  Parameter result;
  result.tensor = parameter.tensor;
  result.name = parameter.name;
  result.seen = parameter.tensor.version();
  const auto load = [&](std::string_view name, const Shape& shape, DType dtype) {
    const bool is_count = dtype == DType::i64;
    const Tensor value = saved.take(state_key(index, name), shape, !is_count);
    if (!value.defined()) return Tensor();
    if (is_count) require_saved_count(kLoad, state_key(index, name), value.item());
    const Tensor copy = empty(shape, {.dtype = dtype, .device = device_});
    copy.copy_(value.detach());
    return copy;
  };
  const StateNames names = state_names(group);
  result.step = load("step", {}, DType::i64);
  if (!names.carried.empty()) result.carried = load(names.carried, {}, DType::f64);
  for (std::size_t i = 0; i < names.buffers.size(); ++i) load_buffer(result, index, i, names, saved);
  if (is_16bit(parameter.tensor.dtype()) && names.masters)
    result.master = load(kMaster, parameter.tensor.shape(), DType::f32);
  saved.end_parameter();
  return result;
}

std::vector<std::vector<Optimizer::Parameter>> Optimizer::all_loaded(const OptimizerState& state) const {
  SavedState saved(kLoad, state);
  std::vector<std::vector<Parameter>> result(groups_.size());
  std::size_t index = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const Parameter& parameter : groups_[g].parameters)
      result[g].push_back(loaded(g, index++, parameter, saved));
  }
  saved.require_empty();
  return result;
}

Value Optimizer::fixed_options() const {
  Value all;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    all.push_back(group_options(g, {}));
    all.push_back(static_cast<std::int64_t>(state_names(g).buffers.size()));
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
  // The next step's master, as it would make it.
  if (former.master.defined() && loaded.step.defined()) {
    const Tensor parameter = loaded.tensor.detach();
    if (!loaded.master.defined()) loaded.master = parameter.to(DType::f32);
    if (former.master.dtype() == DType::i16) loaded.master = split_masters(loaded.master, parameter);
  }
  keep(former.step, loaded.step);
  keep(former.carried, loaded.carried);
  keep(former.master, loaded.master);
  for (std::size_t i = 0; i < former.buffers.size(); ++i) {
    keep(former.buffers[i], loaded.buffers[i]);
    keep(former.scales[i], loaded.scales[i]);
  }
}

void Optimizer::load_state_dict(const OptimizerState& state) {
  const PlainOps plain;
  std::vector<std::int64_t> counts;
  for (const Group& group : groups_) counts.push_back(std::ssize(group.parameters));
  require_saved_groups(kLoad, state.options, name(), counts);
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
