// Saving and restoring an optimizer. Everything that can fail comes before the first change.
#include <algorithm>

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

/// Of the moments with that key.
std::string scale_key(const std::string& key) { return key + "_scale"; }

}  // namespace

template <class P, class F>
void Optimizer::each_slot(std::size_t group, std::size_t index, P& parameter, F f) const {
  const StateNames names = state_names(group);
  f(state_key(index, "step"), parameter.step);
  if (!names.carried.empty()) f(state_key(index, names.carried), parameter.carried);
  std::size_t i = 0;
  for (const std::string_view name : names.buffers) {
    f(state_key(index, name), parameter.buffers[i]);
    f(scale_key(state_key(index, name)), parameter.scales[i++]);
  }
  if (is_16bit(parameter.tensor.dtype()) && names.masters) f(state_key(index, kMaster), parameter.master);
}

OptimizerState Optimizer::state_dict() const {
  const NoGrad no_grad;
  const NoInputHook no_autocast;
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
        if (!tensor.defined()) return;
        const bool is_split = &tensor == &parameter.master && tensor.dtype() == DType::i16;
        state.tensors.emplace_back(key,
                                   is_split ? joined_masters(parameter.tensor.detach(), tensor) : tensor);
      });
    }
  }
  state.options.set("optimizer", name());
  state.options.set("param_groups", std::move(groups));
  return state;
}

/// A buffer of a parameter from its saved values, or from codes whose scales are in `saved`.
void Optimizer::load_buffer(Parameter& parameter, std::size_t i, const StateNames& names,
                            const std::string& key, const Tensor& value, SavedState& saved) const {
  const bool nonnegative = is_nonnegative(names.buffers[i]), is_packed = value.dtype() == DType::u8;
  if (!is_packed && !is_floating(value.dtype()))
    throw DTypeError(kLoad, "a floating " + key + ", or codes (u8)", to_string(value.dtype()),
                     "check the file");
  PackedMoments moments{value.detach().to(device_), {}};
  if (is_packed) {
    moments.scales =
        saved.take(scale_key(key), {kernels::Moments8::blocks(value.numel())}, true).detach().to(device_);
    if (!moments.scales.defined()) return;  // end_parameter says so
    moments.scales = moments.scales.to(DType::f32);
  }
  const bool packs = names.packed && takes_8_bits(parameter.tensor);
  if (packs) {
    moments = is_packed ? PackedMoments{moments.codes.clone(), moments.scales.clone()}
                        : packed_moments(moments.codes, nonnegative);
    parameter.buffers[i] = moments.codes.contiguous();
    parameter.scales[i] = moments.scales.contiguous();
    return;
  }
  const DType wide = parameter.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  parameter.buffers[i] = empty(value.shape(), {.dtype = wide, .device = device_});
  parameter.buffers[i].copy_(is_packed ? unpacked_moments(moments, nonnegative) : moments.codes);
}

/// A parameter with its saved state, which is taken out of `saved`.
Optimizer::Parameter Optimizer::loaded(std::size_t group, std::size_t index, const Parameter& parameter,
                                       SavedState& saved) const {
  Parameter result;
  result.tensor = parameter.tensor;
  result.name = parameter.name;
  result.seen = parameter.tensor.version();
  const DType wide = parameter.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const StateNames names = state_names(group);
  each_slot(group, index, result, [&](const std::string& key, Tensor& slot) {
    const auto* const in_scales = std::find_if(result.scales.begin(), result.scales.end(),
                                               [&](const Tensor& scales) { return &scales == &slot; });
    if (in_scales != result.scales.end()) return;  // comes with the codes
    const auto* const in_buffers = std::find_if(result.buffers.begin(), result.buffers.end(),
                                                [&](const Tensor& buffer) { return &buffer == &slot; });
    const bool is_step = &slot == &result.step, is_carried = &slot == &result.carried;
    const Shape shape = is_step || is_carried ? Shape{} : parameter.tensor.shape();
    const Tensor value = saved.take(key, shape, !is_step && in_buffers == result.buffers.end());
    if (!value.defined()) return;
    if (in_buffers != result.buffers.end()) {
      const auto i = static_cast<std::size_t>(in_buffers - result.buffers.begin());
      load_buffer(result, i, names, key, value, saved);
      return;
    }
    slot = empty(shape, {.dtype = is_step ? DType::i64 : is_carried ? DType::f64 : wide, .device = device_});
    slot.copy_(value.detach());
    if (is_step) require_saved_count(kLoad, key, value.item());
  });
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
  const NoGrad no_grad;
  const NoInputHook no_autocast;
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
