// OneCycleLR as ramps, one per phase.
#include <algorithm>
#include <cmath>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/schedules.h"

namespace mezzo::optim {

namespace {

using kernels::ScheduleNode;
using Piece = Schedule::Piece;

constexpr std::string_view kOneCycle = "OneCycleLR";

std::int64_t steps_of(const OneCycleLROptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // of each factor, so that their product is a step
  if (options.total_steps > 0) return options.total_steps;
  if (options.total_steps == 0 && options.epochs > 0 && options.steps_per_epoch > 0 &&
      options.epochs < kMost && options.steps_per_epoch < kMost)
    return options.epochs * options.steps_per_epoch;
  throw ValueError(kOneCycle, "total_steps, or epochs and steps_per_epoch, of at least 1",
                   std::to_string(options.total_steps) + ", " + std::to_string(options.epochs) + " and " +
                       std::to_string(options.steps_per_epoch),
                   "give the number of calls of step()");
}

/// Checks all options; returns the number of groups, where options are given per group; else 1.
std::size_t checked_groups(const OneCycleLROptions& o) {
  const auto require = [](bool good, const char* expected, double got) {
    require_option(kOneCycle, good, expected, got);
  };
  require(o.pct_start >= 0 && o.pct_start <= 1, "pct_start in [0, 1]", o.pct_start);
  require(std::isfinite(o.div_factor) && o.div_factor > 0, "div_factor finite and > 0", o.div_factor);
  require(std::isfinite(o.final_div_factor) && o.final_div_factor > 0, "final_div_factor finite and > 0",
          o.final_div_factor);
  if (o.max_lr.values().empty())
    throw ValueError(kOneCycle, "max_lr", "none", "give the largest learning rate of the cycle");
  std::size_t groups = 1;
  const auto look_at = [&](std::string_view option, const PerGroup<double>& values, double below) {
    for (const double value : values.values()) {
      if (value >= 0 && value < below) continue;
      const char* const range = below == 1 ? " in [0, 1)" : " finite and >= 0";
      require_option(kOneCycle, false, std::string(option) + range, value);
    }
    if (values.values().size() == 1) return;
    if (groups > 1 || values.values().empty()) values.require_groups(kOneCycle, option, groups);
    groups = values.values().size();
  };
  look_at("max_lr", o.max_lr, std::numeric_limits<double>::infinity());
  if (o.cycle_momentum) {
    look_at("base_momentum", o.base_momentum, 1);
    look_at("max_momentum", o.max_momentum, 1);
  }
  return groups;
}

/// Rates that phases go between; a negative momentum is not driven.
using Rates = kernels::Rates;

/// A phase from `start` to `end`, which need not be whole numbers. It takes over from the phase before, which
/// has come to the same rates there.
Piece phase(AnnealStrategy strategy, double start, double end, const std::vector<Rates>& from,
            const std::vector<Rates>& to) {
  ScheduleNode node{.kind = kernels::ScheduleKind::ramp};
  if (strategy == AnnealStrategy::cos) node.shape = kernels::FadeShape::cosine;
  node.begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(start)));
  node.start = start;
  node.length = end - start;
  std::vector<ScheduleNode> nodes;
  for (std::size_t group = 0; group < from.size(); ++group) {
    node.from = from[group].lr;
    node.to = to[group].lr;
    node.momentum_from = from[group].momentum;
    node.momentum_to = to[group].momentum;
    nodes.push_back(node);
  }
  return {.nodes = std::move(nodes), .option = "max_lr, base_momentum and max_momentum"};
}

}  // namespace

Schedule OneCycleLROptions::schedule() const {
  const std::int64_t total = steps_of(*this);
  const std::size_t groups = checked_groups(*this);
  std::vector<Rates> initial, top, bottom;
  for (std::size_t group = 0; group < groups; ++group) {
    const double max = max_lr.of(group), first = max / div_factor;
    const double high = cycle_momentum ? max_momentum.of(group) : -1;
    initial.push_back({first, high});
    top.push_back({max, cycle_momentum ? base_momentum.of(group) : -1});
    bottom.push_back({first / final_div_factor, high});
  }
  const double end = static_cast<double>(total - 1);
  const double up = pct_start * static_cast<double>(total) - 1;
  std::vector<Piece> pieces{phase(anneal_strategy, 0, up, initial, top)};
  if (three_phase) {
    pieces.push_back(phase(anneal_strategy, up, 2 * up, top, initial));
    pieces.push_back(phase(anneal_strategy, 2 * up, end, initial, bottom));
  } else {
    pieces.push_back(phase(anneal_strategy, up, end, top, bottom));
  }
  pieces.front().last = total;
  return {std::string(kOneCycle), std::move(pieces)};
}

}  // namespace mezzo::optim
