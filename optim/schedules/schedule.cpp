// Chains and sequences as flat lists of nodes, whose begin and end are shifted. The rates of a step are
// computed on the host by the same function as on a device.
#include "mezzo/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/kernels/optim/schedule.h"

namespace mezzo::optim {

template class PerGroup<double>;
template class PerGroup<LrLambda>;
template class PerGroup<kernels::ScheduleNode>;

namespace {

using kernels::ScheduleNode;

/// "SequentialLR(LinearLR, StepLR)".
std::string name_of(std::string_view name, const std::vector<Schedule>& schedules) {
  return std::string(name) + "(" +
         mezzo::detail::listed(schedules, schedules.size(), [](const Schedule& s) { return s.name(); }) + ")";
}

std::int64_t later(std::int64_t step, std::int64_t by) {
  return step > ScheduleNode::kForever - by ? ScheduleNode::kForever : step + by;
}

bool holds(const ScheduleNode& node, std::int64_t step) { return node.begin <= step && step < node.end; }

}  // namespace

bool detail::is_rate(double value) { return std::isfinite(value) && value >= 0; }

void require_group_values(std::string_view op, std::string_view option, std::size_t values,
                          std::size_t groups) {
  if (values == 1 || values == groups) return;
  throw ValueError(
      op, std::string(option) + " once, or for each of " + std::to_string(groups) + " parameter groups",
      std::to_string(values) + " values", "give one per group in the optimizer's order");
}

std::size_t Schedule::Piece::groups() const {
  return std::max(nodes.values().size(), lambdas.values().size());
}

Schedule::Schedule(std::string name, std::vector<Piece> pieces)
    : name_(std::move(name)), pieces_(std::move(pieces)) {}

void Schedule::append(const Schedule& other, std::int64_t begin, std::int64_t end) {
  for (Piece piece : other.pieces_) {
    std::vector<ScheduleNode> nodes = piece.nodes.values();
    for (ScheduleNode& node : nodes) {
      node.origin = later(node.origin, begin);
      node.begin = later(node.begin, begin);
      node.end = std::min(end, later(node.end, begin));
    }
    piece.nodes = std::move(nodes);
    pieces_.push_back(std::move(piece));
  }
}

Schedule Schedule::chain(std::string_view name, const std::vector<Schedule>& schedules) {
  if (schedules.empty())
    throw ValueError(name, "at least one schedule", "none", "list the schedules to be combined");
  Schedule result(name_of(name, schedules), {});
  for (const Schedule& schedule : schedules) result.append(schedule, 0, ScheduleNode::kForever);
  return result;
}

Schedule Schedule::sequence(std::string_view name, const std::vector<Schedule>& schedules,
                            const std::vector<std::int64_t>& milestones) {
  if (schedules.empty())
    throw ValueError(name, "at least one schedule", "none", "list the schedules in their order");
  if (milestones.size() + 1 != schedules.size()) {
    throw ValueError(name,
                     std::to_string(schedules.size() - 1) + " milestones between " +
                         std::to_string(schedules.size()) + " schedules",
                     std::to_string(milestones.size()), "give the step at which each but the first begins");
  }
  Schedule result(name_of(name, schedules), {});
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const std::int64_t end = i < milestones.size() ? milestones[i] : ScheduleNode::kForever;
    if (end <= begin) {
      throw ValueError(name, "milestones that increase from above 0",
                       std::to_string(end) + " after " + std::to_string(begin), "sort them");
    }
    result.append(schedules[i], begin, end);
    begin = end;
  }
  return result;
}

kernels::Rates Schedule::rates(std::int64_t step, kernels::Rates base, std::size_t group) const {
  for (const Piece& piece : pieces_) {
    if (const std::size_t groups = piece.groups(); groups > 1 && group >= groups) {
      throw IndexError(name_, "a group below " + std::to_string(groups), std::to_string(group),
                       "it has been made for as many");
    }
    ScheduleNode node = piece.nodes.of(group);
    if (!holds(node, step)) continue;
    if (!piece.lambdas.values().empty()) node.to = piece.lambdas.of(group)(step - node.origin);
    base = kernels::ScheduleFn{}(&node, 1, step, base);
  }
  return base;
}

bool Schedule::drives_momentum() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return piece.nodes.of(0).momentum_to >= 0; });
}

bool Schedule::needs_host() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const Piece& piece) { return !piece.lambdas.values().empty(); });
}

bool Schedule::covers(std::int64_t step) const {
  return std::none_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    const ScheduleNode& node = piece.nodes.of(0);
    return holds(node, step) && step - node.origin > piece.last;
  });
}

void Schedule::require_groups(std::size_t groups) const {
  for (const Piece& piece : pieces_) {
    require_group_values(name_, piece.option, piece.groups(), groups);
  }
}

}  // namespace mezzo::optim
