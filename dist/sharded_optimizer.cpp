// The parts of a sharded optimizer that all algorithms share: its leaves, the agreement of ranks on
// found_inf, clipping, and the conversion between the whole state and the states of shards.
#include "mezzo/dist/sharded_optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/dist/detail/exact_sum.h"
#include "mezzo/dist/detail/reducer.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/clip.h"
#include "mezzo/optim/detail/saved_state.h"

namespace mezzo::dist {

namespace {

constexpr std::string_view kLoad = "ShardedOptimizer.load_state_dict";
constexpr std::size_t kFrozen = std::numeric_limits<std::size_t>::max();

/// Whether found_inf of any rank is set. The record is on the device, and the host reads nothing.
void agree(const Group& group, Device device, ScalerRecord* record) {
  const NoGrad no_grad;
  const Tensor flag = empty({1}, {.dtype = DType::i32, .device = device});
  auto& memory = backend(device);
  memory.copy_within(flag.impl().data(), &record->found_inf, sizeof record->found_inf, device.index);
  all_reduce(flag, ReduceOp::max, {.group = group});
  memory.copy_within(&record->found_inf, flag.impl().data(), sizeof record->found_inf, device.index);
}

std::string range_name(const std::string& name, std::int64_t begin, std::int64_t end) {
  return name + "[" + std::to_string(begin) + ":" + std::to_string(end) + "]";
}

}  // namespace

struct Sharded::State {
  /// A parameter as the model has it. `ranges`: where its shards are, rank by rank.
  struct Whole {
    Tensor tensor;
    std::size_t group = 0;
    std::vector<std::pair<int, ShardRange>> ranges;
  };

  /// One of this rank's shards, in the order of the optimizer over them.
  struct Own {
    std::size_t parameter = 0;  ///< in State::whole
    std::int64_t begin = 0, end = 0;
  };

  std::string op;
  Ref<Reducer> reducer;
  std::vector<Whole> whole;          ///< group by group
  std::vector<std::int64_t> counts;  ///< parameters in each group
  std::vector<optim::NamedTensors> leaves;
  std::vector<Own> own;

  /// Index in `whole` of each parameter of the reducer.
  [[nodiscard]] std::vector<std::size_t> list(const std::vector<optim::NamedTensors>& groups);
  /// Leaves of this rank, in the order of Reducer::shards.
  [[nodiscard]] std::vector<Tensor> cut_leaves(const std::vector<std::size_t>& places);
  /// The tensors of `whole`, checked: every rank looks at all of them, also at other ranks' shards, so that
  /// all ranks throw or none.
  [[nodiscard]] std::map<std::string, Tensor> checked(const optim::OptimizerState& whole,
                                                      const std::vector<optim::StateNames>& names) const;
};

std::vector<std::size_t> Sharded::State::list(const std::vector<optim::NamedTensors>& groups) {
  const nn::NamedTensors& reduced = reducer->parameters();
  std::vector<std::size_t> places(reduced.size(), kFrozen);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    counts.push_back(static_cast<std::int64_t>(groups[g].size()));
    for (const auto& [name, tensor] : groups[g]) {
      const Tensor& wanted = tensor;  // a binding cannot be captured
      const auto found = std::find_if(reduced.begin(), reduced.end(), [&](const auto& known) {
        return wanted.defined() && known.second.is_same(wanted);
      });
      if (found == reduced.end() && (!tensor.defined() || tensor.requires_grad())) {
        throw ValueError(op, "parameters that the DataParallel reduces", name.empty() ? "another one" : name,
                         "make both of the same model");
      }
      if (found != reduced.end()) {
        std::size_t& place = places[static_cast<std::size_t>(found - reduced.begin())];
        if (place != kFrozen) throw ValueError(op, "each parameter once", name + " twice", "list it once");
        place = whole.size();
        if (!tensor.is_contiguous()) {
          throw ValueError(op, "parameters that are contiguous", found->first, "keep it row by row");
        }
      }
      whole.push_back({tensor, g, {}});
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] != kFrozen) continue;
    throw ValueError(op, "all parameters that the DataParallel reduces",
                     "none of its groups with " + reduced[i].first,
                     "add it, or freeze it before DataParallel is made");
  }
  return places;
}

std::vector<Tensor> Sharded::State::cut_leaves(const std::vector<std::size_t>& places) {
  const Group& group = reducer->group();
  for (int r = 0; r < group.size(); ++r) {
    for (const ShardRange& range : reducer->shards(r))
      whole[places[range.parameter]].ranges.emplace_back(r, range);
  }
  leaves.resize(counts.size());
  std::vector<Tensor> all;
  std::vector<std::vector<Own>> own_by_group(counts.size());
  for (const ShardRange& range : reducer->shards(group.rank())) {
    const Whole& parameter = whole[places[range.parameter]];
    const Tensor leaf = parameter.tensor.detach().view({-1}).narrow(0, range.begin, range.end - range.begin);
    leaf.requires_grad_(true);
    all.push_back(leaf);
    leaves[parameter.group].emplace_back(
        range_name(reducer->parameters()[range.parameter].first, range.begin, range.end), leaf);
    own_by_group[parameter.group].push_back({places[range.parameter], range.begin, range.end});
  }
  for (const auto& list : own_by_group) own.insert(own.end(), list.begin(), list.end());
  if (all.empty()) {  // an optimizer has a parameter
    const Tensor& first = reducer->parameters().front().second;
    leaves.front().emplace_back(
        "no shard", zeros({0}, {.dtype = first.dtype(), .device = first.device(), .requires_grad = true}));
  }
  return all;
}

Sharded::Sharded(std::string op, DataParallel& parallel, const std::vector<optim::NamedTensors>& groups)
    : state_(std::make_unique<State>()) {
  const PlainOps plain;
  state_->op = std::move(op);
  state_->reducer = Ref<Reducer>(&parallel.reducer());
  const auto places = state_->list(groups);
  state_->reducer->shard(state_->cut_leaves(places));
}

Sharded::~Sharded() = default;

const std::vector<optim::NamedTensors>& Sharded::leaves() const noexcept { return state_->leaves; }
std::vector<optim::ParameterPlace> Sharded::places() const {
  std::vector<optim::ParameterPlace> places;
  for (const State::Own& own : state_->own)
    places.push_back({static_cast<std::uint32_t>(own.parameter), own.begin});
  return places;
}
const Group& Sharded::group() const noexcept { return state_->reducer->group(); }

std::vector<Tensor> Sharded::whole_parameters() const {
  std::vector<Tensor> parameters;
  for (const State::Whole& parameter : state_->whole) parameters.push_back(parameter.tensor);
  return parameters;
}

void Sharded::join(optim::Optimizer& optimizer) {
  optimizer.register_step_post_hook(
      [reducer = state_->reducer](optim::Optimizer& /*optimizer*/) { reducer->gather_parameters(); });
  optimizer.set_found_inf_agreement(
      [group = group(), device = optimizer.device()](ScalerRecord* record) { agree(group, device, record); });
}

Tensor Sharded::clip_grad_norm_(double max_norm, double norm_type, bool error_if_nonfinite) const {
  const std::string op = state_->op + ".clip_grad_norm_";
  if (!(max_norm >= 0))
    throw ValueError(op, "max_norm >= 0", number_text(max_norm),
                     "pass the largest norm that gradients may have");
  if (!(norm_type > 0))
    throw ValueError(op, "norm_type above 0", number_text(norm_type), "pass 2 for the Euclidean norm");
  const PlainOps plain;
  std::vector<Tensor> leaves, gradients;
  DType dtype = DType::f32;
  for (const State::Whole& parameter : state_->whole) {
    if (parameter.tensor.dtype() == DType::f64) dtype = DType::f64;
  }
  for (const auto& list : state_->leaves) {
    for (const auto& [name, leaf] : list) {
      leaves.push_back(leaf);
      if (leaf.numel() > 0 && leaf.grad().defined()) gradients.push_back(leaf.grad().detach());
    }
  }
  const Device device = state_->reducer->parameters().front().second.device();
  Tensor total = total_norm(gradients, norm_type, group(), device).to(dtype);
  if (error_if_nonfinite && !std::isfinite(total.item())) {
    throw ValueError(op, "a finite total norm", number_text(total.item()),
                     "look for the source with autograd::detect_anomaly, or pass error_if_nonfinite = false");
  }
  if (!gradients.empty()) optim::clip_grads_with_norm_(leaves, max_norm, total);
  return total;
}

namespace detail {

optim::NamedTensors reduced_parameters(const DataParallel& parallel) {
  return parallel.reducer().parameters();
}

}  // namespace detail

namespace {

using optim::state_key;
using TensorMap = std::map<std::string, Tensor>;

/// The options of a state with other numbers of parameters.
Value with_counts(const Value& options, const std::vector<std::int64_t>& counts) {
  Value groups;
  const Value::List& given = options.at("param_groups").as_list();
  for (std::size_t g = 0; g < given.size(); ++g) {
    Value group = given[g];
    group.set("num_parameters", counts[g]);
    groups.push_back(std::move(group));
  }
  Value result = options;
  result.set("param_groups", std::move(groups));
  return result;
}

/// Names of the tensors that are as large as the parameter.
optim::BufferNames large_names(const Tensor& parameter, const optim::StateNames& names) {
  optim::BufferNames large = names.buffers;
  if (names.masters && is_16bit(parameter.dtype())) large.push_back(optim::kMaster);
  return large;
}

/// One number of each parameter, the largest of all ranks, on the host; `least` where no rank has it.
Tensor gathered_numbers(const std::vector<Tensor>& numbers, double least, DType dtype, Device device,
                        const Group& group) {
  Tensor all = full({static_cast<std::int64_t>(numbers.size())}, least, {.dtype = dtype, .device = device});
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].defined()) all.select(0, static_cast<std::int64_t>(i)).copy_(numbers[i]);
  }
  all_reduce(all, ReduceOp::max, {.group = group});
  return all;
}

}  // namespace

optim::OptimizerState Sharded::gathered(const optim::OptimizerState& shards,
                                        const std::vector<optim::StateNames>& names) const {
  const PlainOps plain;
  const State& state = *state_;
  const TensorMap own(shards.tensors.begin(), shards.tensors.end());
  const auto own_of = [&](std::size_t shard, std::string_view name) {
    const auto found = own.find(state_key(shard, name));
    return found == own.end() ? Tensor() : found->second;
  };
  const Device device = state.reducer->parameters().front().second.device();
  std::vector<Tensor> own_steps(state.whole.size()), own_carried(state.whole.size());
  for (std::size_t k = 0; k < state.own.size(); ++k) {
    const std::size_t i = state.own[k].parameter;
    own_steps[i] = own_of(k, "step");
    if (const std::string_view name = names[state.whole[i].group].carried; !name.empty())
      own_carried[i] = own_of(k, name);
  }
  const Tensor steps = gathered_numbers(own_steps, -1, DType::i64, device, group());
  const Tensor carried =
      gathered_numbers(own_carried, std::numeric_limits<double>::lowest(), DType::f64, device, group());
  const Tensor on_host = steps.to(Device::cpu());
  const auto* const step_of = static_cast<const std::int64_t*>(on_host.impl().data());

  optim::OptimizerState result{with_counts(shards.options, state.counts), {}};
  for (std::size_t i = 0; i < state.whole.size(); ++i) {
    const State::Whole& parameter = state.whole[i];
    if (step_of[i] < 0) continue;
    const optim::StateNames& kept = names[parameter.group];
    const auto index = static_cast<std::int64_t>(i);
    result.tensors.emplace_back(state_key(i, "step"), steps.select(0, index).clone());
    if (!kept.carried.empty())
      result.tensors.emplace_back(state_key(i, kept.carried), carried.select(0, index).clone());
    const DType dtype = parameter.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32;
    for (const std::string_view name : large_names(parameter.tensor, kept)) {
      const Tensor all = empty(parameter.tensor.shape(), {.dtype = dtype, .device = device});
      const Tensor flat = all.view({-1});
      for (std::size_t k = 0; k < state.own.size(); ++k) {
        if (state.own[k].parameter != i) continue;
        flat.narrow(0, state.own[k].begin, state.own[k].end - state.own[k].begin).copy_(own_of(k, name));
      }
      for (const auto& [rank, range] : parameter.ranges)
        broadcast(flat.narrow(0, range.begin, range.end - range.begin), rank, {.group = group()});
      result.tensors.emplace_back(state_key(i, name), all);
    }
  }
  return result;
}

void Sharded::require_groups(const Value& options, std::string_view optimizer) const {
  optim::require_saved_groups(kLoad, options, optimizer, state_->counts);
}

TensorMap Sharded::State::checked(const optim::OptimizerState& state,
                                  const std::vector<optim::StateNames>& names) const {
  optim::SavedState saved(kLoad, state);
  TensorMap taken;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const optim::StateNames& kept = names[whole[i].group];
    const auto take = [&](std::string_view name, const Shape& shape, bool has_to_be_floating) {
      const std::string key = state_key(i, name);
      const Tensor tensor = saved.take(key, shape, has_to_be_floating);
      if (tensor.defined()) taken.emplace(key, tensor);
    };
    take("step", {}, false);
    if (!kept.carried.empty()) take(kept.carried, {}, true);
    for (const std::string_view name : large_names(whole[i].tensor, kept))
      take(name, whole[i].tensor.shape(), true);
    saved.end_parameter();
  }
  saved.require_empty();
  return taken;
}

optim::OptimizerState Sharded::cut(const optim::OptimizerState& whole,
                                   const std::vector<optim::StateNames>& names) const {
  const State& state = *state_;
  const TensorMap taken = state.checked(whole, names);
  std::vector<std::int64_t> own_counts;
  for (const auto& list : state.leaves) own_counts.push_back(static_cast<std::int64_t>(list.size()));
  optim::OptimizerState result{with_counts(whole.options, own_counts), {}};
  for (std::size_t k = 0; k < state.own.size(); ++k) {
    const State::Own& own = state.own[k];
    const State::Whole& parameter = state.whole[own.parameter];
    const optim::StateNames& kept = names[parameter.group];
    for (const std::string_view name : {std::string_view("step"), kept.carried}) {
      const auto found = taken.find(state_key(own.parameter, name));
      if (found != taken.end()) result.tensors.emplace_back(state_key(k, name), found->second);
    }
    for (const std::string_view name : large_names(parameter.tensor, kept)) {
      const auto found = taken.find(state_key(own.parameter, name));
      if (found == taken.end()) continue;
      const Tensor flat = found->second.detach().contiguous().view({-1});
      result.tensors.emplace_back(state_key(k, name), flat.narrow(0, own.begin, own.end - own.begin));
    }
  }
  return result;
}

}  // namespace mezzo::dist
