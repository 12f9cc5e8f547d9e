// What a state dict must be for an optimizer to take it.
#include "mezzo/optim/detail/saved_state.h"

#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kOtherParameters = "it was saved with other parameters";

}  // namespace

std::string state_key(std::size_t parameter, std::string_view name) {
  return std::to_string(parameter).append(".").append(name);
}

void require_saved_groups(std::string_view op, const Value& options, std::string_view optimizer,
                          std::span<const std::int64_t> counts) {
  const std::string& kind = options.at("optimizer").as_string();
  if (kind != optimizer) {
    throw StateError(op, "the state of " + std::string(optimizer), kind,
                     "load it into an optimizer of that kind");
  }
  const Value::List& groups = options.at("param_groups").as_list();
  if (groups.size() != counts.size()) {
    throw StateError(op, std::to_string(counts.size()) + " parameter groups", std::to_string(groups.size()),
                     "make the optimizer with the same groups");
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t count = groups[g].at("num_parameters").as_int();
    if (count == counts[g]) continue;
    throw StateError(op, std::to_string(counts[g]) + " parameters in group " + std::to_string(g),
                     std::to_string(count), "make the optimizer with the same parameters");
  }
}

SavedState::SavedState(std::string_view op, const OptimizerState& state) : op_(op) {
  for (const auto& [key, tensor] : state.tensors) {
    if (!tensor.defined())
      throw StateError(op, "defined tensors", "an undefined " + key, "leave absent ones out");
    if (!tensors_.emplace(key, tensor).second)
      throw StateError(op, "each tensor once", key + " twice", "check the file");
  }
}

Tensor SavedState::take(const std::string& key, const Shape& shape, bool has_to_be_floating) {
  const auto node = tensors_.extract(key);
  if (node.empty()) {
    if (!key.ends_with(kMaster)) missing_ = key;
    return {};
  }
  has_any_ = true;
  const Tensor& tensor = node.mapped();
  if (tensor.shape() != shape) {
    throw ShapeError(op_, key + " of shape " + to_string(shape), to_string(tensor.shape()), kOtherParameters);
  }
  if (has_to_be_floating && !is_floating(tensor.dtype()))
    throw DTypeError(op_, "a floating " + key, to_string(tensor.dtype()), "check the file");
  return tensor;
}

void SavedState::end_parameter() {
  const std::string missing = std::exchange(missing_, {});
  if (std::exchange(has_any_, false) && !missing.empty())
    throw StateError(op_, "all of a parameter's state", "no " + missing, "check the file");
}

void SavedState::require_empty() const {
  if (!tensors_.empty())
    throw StateError(op_, "state of these parameters only", tensors_.begin()->first, kOtherParameters);
}

}  // namespace mezzo::optim
