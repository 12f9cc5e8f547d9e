// The nodes that the formulas of schedules.h are made of, and the checks of their options.
#include "mezzo/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

namespace {

using kernels::FadeShape;
using kernels::ScheduleKind;
using kernels::ScheduleNode;
using Piece = Schedule::Piece;

constexpr std::int64_t kMostTabulated = std::int64_t{1} << 24;  // 128 MiB

void require_count(std::string_view name, std::string_view option, std::int64_t value, std::int64_t least,
                   std::int64_t most = ScheduleNode::kMostSteps) {
  if (value >= least && value <= most) return;
  const std::string range = number_text(least) + " to " + number_text(most);
  throw ValueError(name, std::string(option) + " from " + range, number_text(value),
                   "give it in steps of the scheduler");
}

void require_rate(std::string_view name, std::string_view option, double value) {
  require_option(name, detail::is_rate(value), std::string(option) + " finite and >= 0", value);
}

void require_share(std::string_view name, std::string_view option, double value) {
  require_option(name, value >= 0 && value <= 1, std::string(option) + " in [0, 1]", value);
}

Piece piece_of(const ScheduleNode& node) { return {.nodes = node}; }

Schedule one_piece(std::string_view name, const ScheduleNode& node) {
  return {std::string(name), {piece_of(node)}};
}

/// (t + 1) / steps of the base, then all of it.
ScheduleNode warmup(std::int64_t steps) {
  return {
      .kind = ScheduleKind::fade, .end = steps, .from = 0, .start = -1, .length = static_cast<double>(steps)};
}

/// From the base to `ratio` of it in `steps`, beginning at step `begin`.
ScheduleNode decay(FadeShape shape, double ratio, std::int64_t begin, std::int64_t steps) {
  return {.kind = ScheduleKind::fade,
          .shape = shape,
          .begin = begin,
          .origin = begin,
          .to = ratio,
          .length = static_cast<double>(steps)};
}

}  // namespace

Schedule ConstantLROptions::schedule() const {
  constexpr std::string_view name = "ConstantLR";
  require_share(name, "factor", factor);
  require_count(name, "total_iters", total_iters, 1);
  return one_piece(name, {.end = total_iters, .to = factor});
}

Schedule StepLROptions::schedule() const {
  constexpr std::string_view name = "StepLR";
  require_count(name, "step_size", step_size, 1);
  require_rate(name, "gamma", gamma);
  return one_piece(name,
                   {.kind = ScheduleKind::power, .length = static_cast<double>(step_size), .base = gamma});
}

Schedule MultiStepLROptions::schedule() const {
  constexpr std::string_view name = "MultiStepLR";
  require_rate(name, "gamma", gamma);
  std::vector<Piece> pieces;
  std::int64_t last = 0;
  for (const std::int64_t milestone : milestones) {
    if (milestone < last) {
      throw ValueError(name, "milestones that do not decrease, from 0 on",
                       std::to_string(milestone) + " after " + std::to_string(last), "sort them");
    }
    last = milestone;
    pieces.push_back(piece_of({.begin = milestone, .to = gamma}));
  }
  return {std::string(name), std::move(pieces)};
}

Schedule ExponentialLROptions::schedule() const {
  constexpr std::string_view name = "ExponentialLR";
  require_rate(name, "gamma", gamma);
  return one_piece(name, {.kind = ScheduleKind::power, .base = gamma});
}

Schedule CosineAnnealingLROptions::schedule() const {
  constexpr std::string_view name = "CosineAnnealingLR";
  require_count(name, "T_max", T_max, 1);
  require_rate(name, "eta_min", eta_min);
  return one_piece(name, {.kind = ScheduleKind::cosine, .to = eta_min, .length = static_cast<double>(T_max)});
}

Schedule CosineAnnealingWarmRestartsOptions::schedule() const {
  constexpr std::string_view name = "CosineAnnealingWarmRestarts";
  require_count(name, "T_0", T_0, 1);
  require_count(name, "T_mult", T_mult, 1);
  require_rate(name, "eta_min", eta_min);
  return one_piece(name, {.kind = ScheduleKind::restarts,
                          .to = eta_min,
                          .length = static_cast<double>(T_0),
                          .base = static_cast<double>(T_mult)});
}

Schedule LinearLROptions::schedule() const {
  constexpr std::string_view name = "LinearLR";
  require_option(name, start_factor > 0 && start_factor <= 1, "start_factor in (0, 1]", start_factor);
  require_share(name, "end_factor", end_factor);
  require_count(name, "total_iters", total_iters, 1);
  return one_piece(name, {.kind = ScheduleKind::fade,
                          .from = start_factor,
                          .to = end_factor,
                          .length = static_cast<double>(total_iters)});
}

Schedule LinearWarmupOptions::schedule() const {
  constexpr std::string_view name = "LinearWarmup";
  require_count(name, "warmup_steps", warmup_steps, 1);
  return one_piece(name, warmup(warmup_steps));
}

Schedule WarmupCosineOptions::schedule() const {
  constexpr std::string_view name = "WarmupCosine";
  require_count(name, "warmup_steps", warmup_steps, 0);
  require_count(name, "total_steps", total_steps, warmup_steps + 1);
  require_share(name, "min_ratio", min_ratio);
  return {std::string(name),
          {piece_of(warmup(warmup_steps)),
           piece_of(decay(FadeShape::cosine, min_ratio, warmup_steps, total_steps - warmup_steps))}};
}

Schedule WarmupStableDecayOptions::schedule() const {
  constexpr std::string_view name = "WarmupStableDecay";
  require_count(name, "warmup_steps", warmup_steps, 0);
  require_count(name, "stable_steps", stable_steps, 0);
  require_count(name, "decay_steps", decay_steps, 1);
  require_share(name, "min_ratio", min_ratio);
  const FadeShape shape = decay == DecayForm::linear   ? FadeShape::linear
                          : decay == DecayForm::cosine ? FadeShape::cosine
                                                       : FadeShape::one_minus_sqrt;
  const ScheduleNode fall = optim::decay(shape, min_ratio, warmup_steps + stable_steps, decay_steps);
  return {std::string(name), {piece_of(warmup(warmup_steps)), piece_of(fall)}};
}

Schedule PolynomialLROptions::schedule() const {
  constexpr std::string_view name = "PolynomialLR";
  require_count(name, "total_iters", total_iters, 1);
  require_rate(name, "power", power);
  ScheduleNode node = decay(FadeShape::power, 0, 0, total_iters);
  node.base = power;
  return one_piece(name, node);
}

Schedule LambdaLROptions::schedule() const {
  constexpr std::string_view name = "LambdaLR";
  require_count(name, "tabulate", tabulate, 0, kMostTabulated);
  if (lr_lambda.values().empty())
    throw ValueError(name, "lr_lambda", "none", "give a function of the step that returns a factor");
  for (const LrLambda& lambda : lr_lambda.values()) {
    if (!lambda)
      throw ValueError(name, "functions lr_lambda", "an empty one", "give a factor for each group");
  }
  Piece piece{.nodes = ScheduleNode{}, .option = "lr_lambda"};
  if (tabulate == 0) {
    piece.lambdas = lr_lambda;
    return {std::string(name), {piece}};
  }
  std::vector<ScheduleNode> nodes;
  for (const LrLambda& lambda : lr_lambda.values()) {
    std::vector<double> table;
    for (std::int64_t t = 0; t < tabulate; ++t) {
      table.push_back(lambda(t));
      require_option(name, detail::is_rate(table.back()), "factors of lr_lambda finite and >= 0",
                     table.back());
    }
    const auto memory = std::make_shared<const std::vector<double>>(std::move(table));
    ScheduleNode node{.kind = ScheduleKind::table};
    node.length = static_cast<double>(tabulate);
    node.table = memory->data();
    nodes.push_back(node);
    piece.tables.push_back(memory);
  }
  piece.nodes = std::move(nodes);
  return {std::string(name), {piece}};
}

Schedule ChainedSchedulerOptions::schedule() const { return Schedule::chain("ChainedScheduler", schedulers); }

Schedule SequentialLROptions::schedule() const {
  return Schedule::sequence("SequentialLR", schedulers, milestones);
}

// --- OneCycleLR as ramps, one per phase

namespace {

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
