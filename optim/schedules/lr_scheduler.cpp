// The schedule and its step count in device memory: step() starts one small kernel that counts and writes
// the rates. A schedule with a host function runs on the host, and cannot be captured into a graph.
#include "mezzo/optim/lr_scheduler.h"

#include <string>
#include <utility>

#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/kernels/optim/schedule.h"
#include "mezzo/ops/factory.h"

namespace mezzo::optim {

namespace {

void write(const Tensor& memory, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  backend(memory.device()).copy_from_host(memory.impl().data(), from, bytes, memory.device().index);
}

/// An array in the memory of a device.
template <class T>
Tensor array_on(Device device, const std::vector<T>& array) {
  const std::size_t bytes = array.size() * sizeof(T);
  Tensor memory = empty({static_cast<std::int64_t>(bytes)}, {.dtype = DType::u8, .device = device});
  write(memory, array.data(), bytes);
  return memory;
}

template <class T>
T* pointer_to(const Tensor& memory) {
  return static_cast<T*>(memory.impl().data());
}

void check_record(const std::string& op, const Tensor& record, Device device) {
  constexpr std::string_view fix = "hand in what the scaler's step of this optimizer returned";
  if (!(record.device() == device))
    throw DeviceError(op, "the result of a step on " + to_string(device), to_string(record.device()), fix);
  if (record.dtype() == DType::u8 && record.numel() == sizeof(ScalerRecord) && record.is_contiguous()) return;
  throw ValueError(op, "a scaler's record", to_string(record.dtype()) + " " + to_string(record.shape()), fix);
}

ScalerRecord read_record(const Tensor& record) {
  ScalerRecord result;
  const HostRead read("LRScheduler.step");
  backend(record.device()).copy_to_host(&result, record.impl().data(), sizeof(result), record.device().index);
  return result;
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer, Schedule schedule)
    : optimizer_(optimizer),
      schedule_(std::move(schedule)),
      device_(optimizer.device()),
      calls_before_(optimizer.step_calls()) {
  schedule_.require_groups(optimizer.num_groups());
  if (schedule_.drives_momentum() && !optimizer.momentum()) {
    throw StateError(schedule_.name(), "an optimizer with momentum or beta1", "one without",
                     "set cycle_momentum = false");
  }
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    groups_.push_back({.base = optimizer.lr(group)});
  set_rates(0);
  if (!schedule_.needs_host()) upload();
}

std::vector<kernels::Rates> LRScheduler::rates_at(std::int64_t step) const {
  std::vector<kernels::Rates> rates;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    rates.push_back(schedule_.rates(step, {groups_[group].base, 0}, group));
    if (detail::is_rate(rates.back().lr)) continue;
    throw ValueError(schedule_.name(), "a finite learning rate >= 0", number_text(rates.back().lr),
                     "check the function at step " + std::to_string(step));
  }
  return rates;
}

void LRScheduler::set_rates(std::int64_t step) {
  const std::vector<kernels::Rates> rates = rates_at(step);
  for (std::size_t group = 0; group < rates.size(); ++group) {
    optimizer_.set_lr(rates[group].lr, group);
    if (schedule_.drives_momentum()) optimizer_.set_momentum(rates[group].momentum, group);
  }
}

void LRScheduler::upload() {
  std::vector<kernels::ScheduleNode> nodes;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (const Schedule::Piece& piece : schedule_.pieces()) {
      nodes.push_back(piece.nodes.of(group));
      if (piece.tables.empty()) continue;
      memory_.push_back(array_on(device_, *piece.tables[piece.tables.size() == 1 ? 0 : group]));
      nodes.back().table = pointer_to<const double>(memory_.back());
    }
  }
  memory_.push_back(array_on(device_, nodes));
  const auto* node = pointer_to<const kernels::ScheduleNode>(memory_.back());
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    memory_.push_back(optimizer_.rates(group));
    groups_[group].rates = pointer_to<kernels::Rates>(memory_.back());
    groups_[group].nodes = node + group * schedule_.pieces().size();
  }
  groups_on_device_ = array_on(device_, groups_);
  step_ = zeros({}, {.dtype = DType::i64, .device = device_});
}

bool LRScheduler::recording() const {
  return device_.is_cuda() && cuda::current_stream(device_).is_capturing();
}

void LRScheduler::advance(std::int64_t by, const StepOutcome& outcome) const {
  kernels::AdvanceScheduleFn advance{};
  advance.groups = pointer_to<const kernels::ScheduledGroup>(groups_on_device_);
  advance.num_groups = static_cast<std::int64_t>(groups_.size());
  advance.num_nodes = static_cast<std::int64_t>(schedule_.pieces().size());
  advance.step = pointer_to<std::int64_t>(step_);
  advance.by = by;
  if (outcome.record.defined()) advance.record = pointer_to<const ScalerRecord>(outcome.record);
  kernels::advance_schedule(device_, advance);
}

void LRScheduler::step(const StepOutcome& outcome) {
  const Phase phase("schedule");
  const std::string op = schedule_.name() + ".step";
  if (optimizer_.step_calls() == calls_before_) {
    throw StateError(op, "optimizer.step() before scheduler.step()", "no step since the scheduler was made",
                     "step the optimizer first, then the scheduler");
  }
  if (outcome.record.defined()) check_record(op, outcome.record, device_);
  if (steps_known_ && !schedule_.covers(steps_ + 1)) {
    throw StateError(op, "at most total_steps = " + std::to_string(steps_) + " steps", "one more",
                     "make the cycle longer, or stop stepping the scheduler");
  }
  if (schedule_.needs_host()) {
    step_on_host(outcome);
    return;
  }
  // The captured kernels have the schedule's addresses.
  if (mezzo::detail::Recording* const graph = mezzo::detail::Recording::of(device_);
      recording() && graph != nullptr) {
    for (const Tensor& memory : memory_) graph->hold(memory.impl().storage);
    graph->hold(groups_on_device_.impl().storage);
    graph->hold(step_.impl().storage);
  }
  recorded_ = recorded_ || recording();
  if (recorded_ || outcome.record.defined()) steps_known_ = false;
  ++steps_;
  advance(1, outcome);
}

void LRScheduler::step_on_host(const StepOutcome& outcome) {
  if (recording()) {
    throw StateError(schedule_.name() + ".step", "a schedule that runs on the device",
                     "a function of the host, while a graph is recorded", "give LambdaLR a table (tabulate)");
  }
  if (outcome.record.defined()) {
    const ScalerRecord record = read_record(outcome.record);
    if (record.found_inf != 0) return;
  }
  set_rates(steps_ + 1);
  ++steps_;
}

std::int64_t LRScheduler::last_epoch() const {
  if (steps_known_) return steps_;
  std::int64_t steps = 0;
  const HostRead read("LRScheduler.last_epoch");
  backend(device_).copy_to_host(&steps, step_.impl().data(), sizeof(steps), device_.index);
  return steps;
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> result;
  for (const kernels::Rates& rates : rates_at(last_epoch())) result.push_back(rates.lr);
  return result;
}

std::vector<double> LRScheduler::base_lrs() const {
  std::vector<double> result;
  for (const kernels::ScheduledGroup& group : groups_) result.push_back(group.base);
  return result;
}

Value LRScheduler::state_dict() const {
  Value state;
  state.set("scheduler", schedule_.name());
  state.set("last_epoch", last_epoch());
  state.set("base_lrs", base_lrs());
  return state;
}

/// The groups with saved bases.
std::vector<kernels::ScheduledGroup> LRScheduler::loaded_groups(std::string_view op,
                                                                const Value& state) const {
  const std::string& name = state.at("scheduler").as_string();
  if (name != schedule_.name())
    throw StateError(op, "the state of " + schedule_.name(), name, "load it into a scheduler of that kind");
  const Value::List& bases = state.at("base_lrs").as_list();
  if (bases.size() != groups_.size()) {
    throw StateError(op, std::to_string(groups_.size()) + " parameter groups", std::to_string(bases.size()),
                     "make the optimizer with the same groups");
  }
  std::vector<kernels::ScheduledGroup> groups = groups_;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const double base = groups[group].base = bases[group].as_double();
    if (!detail::is_rate(base))
      throw ValueError(op, "finite base_lrs >= 0", number_text(base), "check the file");
  }
  return groups;
}

void LRScheduler::load_state_dict(const Value& state) {
  const std::string op = schedule_.name() + ".load_state_dict";
  std::vector<kernels::ScheduledGroup> groups = loaded_groups(op, state);
  static_assert(kLargestCount == kernels::ScheduleNode::kMostSteps);
  const std::int64_t steps = saved_count(op, state, "last_epoch");
  if (schedule_.needs_host()) {
    std::swap(groups_, groups);
    try {
      set_rates(steps);
    } catch (...) {
      std::swap(groups_, groups);
      throw;
    }
    steps_ = steps;
    return;
  }
  groups_ = std::move(groups);
  steps_ = steps;
  steps_known_ = !recorded_;
  // Into the same memory, which a captured graph may refer to. The device sets the rates, so that they have
  // the bits that an uninterrupted run has.
  write(groups_on_device_, groups_.data(), groups_.size() * sizeof(kernels::ScheduledGroup));
  write(step_, &steps_, sizeof(steps_));
  advance(0, {});
}

}  // namespace mezzo::optim
