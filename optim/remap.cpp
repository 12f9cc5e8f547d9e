// Each optimizer's changes are planned on copies of its groups, and all are applied once none was refused.
// A successor of the same shape takes over the optimizer's state of the parameter before it.
#include "mezzo/optim/remap.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "mezzo/autograd/half_copy.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/detail/packed_state.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kOp = "optim::remap";

std::string described(const Tensor& tensor, const std::string& name = {}) {
  return name.empty() ? "a parameter of shape " + to_string(tensor.shape()) : name;
}

/// Throws unless each pair has a tensor, and none stands on the same side of two.
void check_pairs(const ParameterPairs& pairs) {
  std::unordered_set<const TensorImpl*> before, after;
  const auto require_new = [](std::unordered_set<const TensorImpl*>& seen, const Tensor& tensor,
                              const std::string& side) {
    if (!tensor.defined() || seen.insert(tensor.ref().get()).second) return;
    throw ValueError(kOp, "each tensor once " + side, described(tensor) + " twice", "list each change once");
  };
  for (const auto& [from, to] : pairs) {
    if (!from.defined() && !to.defined())
      throw ValueError(kOp, "a tensor before, after, or both", "neither", "leave that pair out");
    require_new(before, from, "before");
    require_new(after, to, "after");
  }
}

}  // namespace

/// One optimizer's part: planned on copies, so that nothing has changed when something is refused.
class Remapping {
 public:
  /// `only`: there is no other optimizer that a new parameter could belong to.
  Remapping(Optimizer& optimizer, const ParameterPairs& pairs, bool only);
  void apply();
  [[nodiscard]] const RemapReport& report() const { return report_; }

 private:
  using Parameter = Optimizer::Parameter;

  void take(std::size_t group, Parameter& parameter, const Tensor& after);
  void add(std::size_t group, const Tensor& after);
  [[nodiscard]] Parameter successor(std::size_t group, const Parameter& parameter, const Tensor& after) const;
  void check() const;

  Optimizer& optimizer_;
  std::vector<std::vector<Parameter>> groups_;
  std::vector<Tensor> given_up_;
  RemapReport report_;
};

Remapping::Remapping(Optimizer& optimizer, const ParameterPairs& pairs, bool only) : optimizer_(optimizer) {
  std::unordered_map<const TensorImpl*, std::pair<std::size_t, std::size_t>> places;
  for (const Optimizer::Group& group : optimizer.groups_) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      places[group.parameters[i].tensor.ref().get()] = {groups_.size(), i};
    groups_.push_back(group.parameters);
  }
  // Where the pair ahead belongs: a group, or, past the last one, another optimizer or none.
  std::optional<std::size_t> ahead;
  if (only && groups_.size() == 1) ahead = 0;
  for (const auto& [before, after] : pairs) {
    if (before.defined()) {
      const auto found = places.find(before.ref().get());
      ahead = found == places.end() ? groups_.size() : found->second.first;
      if (found != places.end()) take(*ahead, groups_[*ahead][found->second.second], after);
    } else if (ahead) {
      add(*ahead, after);
    } else {
      throw ValueError(kOp, "a pair ahead of a new parameter that tells its group",
                       described(after) + " first, and more than one group",
                       "place it behind a pair of that group; (w, w) leaves w as it is");
    }
  }
  for (std::vector<Parameter>& group : groups_)
    std::erase_if(group, [](const Parameter& parameter) { return !parameter.tensor.defined(); });
  check();
}

void Remapping::take(std::size_t group, Parameter& parameter, const Tensor& after) {
  const Tensor before = parameter.tensor;
  if (before.is_same(after)) return;
  given_up_.push_back(before);
  if (after.defined()) {
    require_parameter(kOp, after, optimizer_.device());
    parameter = successor(group, parameter, after);
    ++report_.moved;
  } else {
    parameter.tensor = Tensor();
    ++report_.removed;
  }
}

void Remapping::add(std::size_t group, const Tensor& after) {
  if (group == groups_.size()) return;
  require_parameter(kOp, after, optimizer_.device());
  Parameter parameter;
  parameter.tensor = after;
  groups_[group].push_back(std::move(parameter));
  ++report_.added;
}

Remapping::Parameter Remapping::successor(std::size_t group, const Parameter& parameter,
                                          const Tensor& after) const {
  Parameter result;
  result.tensor = after;
  result.name = parameter.name;
  if (parameter.tensor.shape() != after.shape()) return result;
  result.step = parameter.step;
  result.carried = parameter.carried;
  const DType wide = after.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (std::size_t i = 0; i < parameter.buffers.size(); ++i) {
    if (!parameter.buffers[i].defined()) continue;
    result.buffers[i] = parameter.buffers[i];
    result.scales[i] = parameter.scales[i];
    if (result.scales[i].defined() && !takes_8_bits(after)) {
      const bool nonnegative = is_nonnegative(optimizer_.state_names(group).buffers[i]);
      result.buffers[i] = unpacked_moments({result.buffers[i], result.scales[i]}, nonnegative);
      result.scales[i] = Tensor();
    }
    if (!result.scales[i].defined()) result.buffers[i] = to(result.buffers[i], wide);
  }
  // The next step compares the master with the new values, as with any that somebody else has written.
  const bool is_split = parameter.master.defined() && parameter.master.dtype() == DType::i16;
  if (is_16bit(after.dtype()))
    result.master = is_split ? joined_masters(parameter.tensor.detach(), parameter.master) : parameter.master;
  result.seen = after.version() - 1;
  return result;
}

void Remapping::check() const {
  std::unordered_set<const TensorImpl*> seen;
  for (const std::vector<Parameter>& group : groups_) {
    for (const Parameter& parameter : group) {
      if (seen.insert(parameter.tensor.ref().get()).second) continue;
      throw ValueError(kOp, "each parameter once in an optimizer",
                       described(parameter.tensor, parameter.name) + " twice",
                       "it is there already; leave its pair out");
    }
  }
  if (seen.empty())
    throw ValueError(kOp, "at least one parameter left", "none", "make another optimizer instead");
}

void Remapping::apply() {
  for (std::size_t g = 0; g < groups_.size(); ++g) optimizer_.groups_[g].parameters = std::move(groups_[g]);
  optimizer_.break_recordings();
  for (const Tensor& tensor : given_up_) release_half_copies(tensor);
}

RemapReport remap(Optimizer& optimizer, const ParameterPairs& pairs) {
  return remap(std::vector<Optimizer*>{&optimizer}, pairs);
}

RemapReport remap(const std::vector<Optimizer*>& optimizers, const ParameterPairs& pairs) {
  const PlainOps plain;
  check_pairs(pairs);
  std::unordered_set<const Optimizer*> seen;
  std::vector<Remapping> remappings;
  for (Optimizer* optimizer : optimizers) {
    if (optimizer == nullptr)
      throw ValueError(kOp, "optimizers", "a null pointer", "pass the address of each");
    if (!seen.insert(optimizer).second)
      throw ValueError(kOp, "each optimizer once", "one twice", "list it once");
    remappings.emplace_back(*optimizer, pairs, optimizers.size() == 1);
  }
  RemapReport sum;
  for (Remapping& remapping : remappings) {
    remapping.apply();
    sum.moved += remapping.report().moved;
    sum.removed += remapping.report().removed;
    sum.added += remapping.report().added;
  }
  const auto fresh = static_cast<std::size_t>(
      std::count_if(pairs.begin(), pairs.end(), [](const auto& pair) { return !pair.first.defined(); }));
  sum.left_out = fresh - std::min(fresh, sum.added);
  return sum;
}

}  // namespace mezzo::optim
