// From measurements to advice. Advice is ordered by the share of the step that it is about: 1 - 1 / gain, or
// what stays as it is whatever the dtype.
#include <algorithm>
#include <tuple>
#include <utility>

#include "mezzo/core/text/text_table.h"
#include "mezzo/profile/advise/measurements.h"

namespace mezzo::amp::detail {

namespace {

/// An op that takes less than this many calls is small. Under autocast its input, weight and gradient are
/// cast, three calls, and 16 bits save at most half of its time.
constexpr double kSmallOp = 6;
/// What counts as most of the time.
constexpr double kMost = 0.5;
/// A bound on the gain below which the ops that stay in f32 are the cause. With 1.5, they have two thirds.
constexpr double kLowBound = 1.5;
/// The program's own code is told of from this share and time on: below, it is the loop around the ops.
constexpr double kProgramShare = 0.25, kProgramSeconds = 1e-3;
/// Ops and modules that a line names.
constexpr std::size_t kNamed = 4;
/// A module keeps as much as in f32 where it keeps more than this part of it.
constexpr double kStillF32 = 0.9;
/// The orders of what has no gain: causes of all, and what is beside the time.
constexpr double kFirst = 2, kLast = -1;

std::string times(double ratio) { return fixed_text(ratio, 2) + " x"; }
std::string percent(double part) { return fixed_text(part * 100, part < 0.1 ? 1 : 0) + " %"; }
std::string time_text(double seconds) {
  return seconds < 1e-3 ? fixed_text(seconds * 1e6, 1) + " us" : fixed_text(seconds * 1e3, 2) + " ms";
}
std::string and_more(std::size_t all) {
  return all > kNamed ? " and " + std::to_string(all - kNamed) + " more" : "";
}

std::string counted(std::int64_t count, const char* noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

bool is_half(const std::string& dtype) { return dtype == "f16" || dtype == "bf16"; }

double phase_seconds(const profile::Report& report, std::string_view phase) {
  for (const profile::PhaseRow& row : report.phases) {
    if (row.phase == phase) return row.seconds;
  }
  return 0;
}

/// The time of a step now by the time without a share of it.
double without(double share) { return 1 / (1 - std::min(share, 0.999)); }

class Judge {
 public:
  explicit Judge(Measurements& measured)
      : m_(measured),
        total_(std::max(m_.autocast.seconds, 1e-12)),
        is_faster_(m_.f32_seconds > kGain * m_.seconds) {}

  Advisory all() {
    find_half_share();
    judge_region();
    judge_host();
    judge_small_ops();
    judge_bound();
    judge_weights();
    judge_trials();
    judge_gradients();
    judge_memory();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [order, advice] : found_) result_.advice.push_back(std::move(advice));
    result_.device = m_.device;
    result_.dtype = m_.dtype;
    result_.f32_seconds = m_.f32_seconds;
    result_.seconds = m_.seconds;
    result_.untried = std::move(m_.untried);
    result_.f32 = std::move(m_.f32);
    result_.autocast = std::move(m_.autocast);
    return std::move(result_);
  }

 private:
  void add(double order, Advice advice) { found_.emplace_back(order, std::move(advice)); }
  /// Advice whose gain is a bound: without this share of the step.
  void add_share(AdviceKind kind, double share, std::string text) {
    add(share, {.kind = kind, .text = std::move(text), .gain = without(share)});
  }
  [[nodiscard]] double share(double seconds) const { return seconds / total_; }
  [[nodiscard]] std::string of_step(double seconds) const {
    return time_text(per_step(seconds)) + ", " + percent(share(seconds)) + " of the step";
  }
  [[nodiscard]] std::int64_t steps() const { return std::max(m_.autocast.steps, std::int64_t{1}); }
  [[nodiscard]] double per_step(double sum) const { return sum / static_cast<double>(steps()); }

  /// The share of the f32 steps that is in ops which autocast runs in 16 bits.
  void find_half_share() {
    double seconds = 0;
    for (const profile::OpRow& row : m_.f32.ops) {
      std::int64_t all = 0, half = 0;
      for (const profile::OpRow& other : m_.autocast.ops) {
        if (other.op != row.op || other.phase != row.phase) continue;
        all += other.calls;
        // The gradient of an f32 weight is an f32 result of 16-bit operands.
        half += is_half(other.dtype) || other.flop > 0 ? other.calls : 0;
      }
      if (all > 0 && m_.watched.dtype)
        seconds += row.seconds * static_cast<double>(half) / static_cast<double>(all);
    }
    half_share_ = m_.f32.seconds > 0 ? std::min(seconds / m_.f32.seconds, 1.0) : 0;
    result_.facts.push_back("ops that autocast runs in 16 bits have " + percent(half_share_) +
                            " of the f32 step: at best " + times(without(half_share_)));
    double casts = 0;
    for (const profile::OpRow& row : m_.autocast.ops) casts += row.op == "to_dtype" ? row.seconds : 0;
    cast_seconds_ = casts;
    result_.facts.push_back("autocast makes " + counted(m_.watched.casts, "cast") + " a step in forward, " +
                            bytes_text(m_.watched.bytes) + "; all casts take " + of_step(casts));
    for (const Island& island : m_.watched.islands) result_.facts.push_back(described(island));
  }

  void judge_region() {
    if (!m_.watched.dtype) {
      add(kFirst,
          {.kind = AdviceKind::no_region,
           .text = m_.opens_region
                       ? "no op ran in 16 bits: the function opens no region, so nothing could be tried; "
                         "write { amp::Autocast region(device, DType::bf16); loss = ...; } around its forward"
                       : "no op ran in 16 bits: no product, convolution, attention or recurrent cell of "
                         "f32 tensors is in the step, or its rules of precision say f32"});
      return;
    }
    if (m_.has_instructions || is_faster_) return;
    const double order = 1 - share(phase_seconds(m_.autocast, "loader"));  // all that is the processor's
    if (m_.dtype == DType::bf16) {
      add(order, {.kind = AdviceKind::hardware,
                  .text = "this CPU has no bf16 instructions, and products are made in f32: 16 bits save "
                          "memory here, and no time"});
      return;
    }
    Advice advice{.kind = AdviceKind::hardware,
                  .text =
                      "f16 on a CPU is storage, and the arithmetic is f32; bf16 is the dtype that CPUs have "
                      "instructions for: write amp::Autocast(device, DType::bf16)"};
    for (const Trial& trial : m_.trials) {
      if (trial.kind != AdviceKind::hardware) continue;
      advice.text += ". Tried: " + text_of(trial);
      if (trial.is_above_noise) advice.gain = trial.before / trial.after;
      advice.tried = trial.is_above_noise;
    }
    std::erase_if(m_.trials, [](const Trial& trial) { return trial.kind == AdviceKind::hardware; });
    add(order, std::move(advice));
  }

  void judge_host() {
    const double loader = phase_seconds(m_.autocast, "loader");
    if (without(share(loader)) >= kGain)
      add_share(AdviceKind::loader, share(loader),
                "the step waits for the loader: " + of_step(loader) +
                    "; data::DataLoader(..., {.num_workers = 2}) loads while the step before runs");
    const double other = phase_seconds(m_.autocast, "other");
    if (share(other) >= kProgramShare && per_step(other) >= kProgramSeconds)
      add_share(AdviceKind::program, share(other),
                "the program's own code, outside of ops: " + of_step(other) +
                    "; autocast changes nothing about it");
    double by_ops = 0;
    std::int64_t calls = 0;
    for (const profile::OpRow& row : m_.autocast.ops) {
      if (row.phase != "step" || !is_op(row)) continue;
      by_ops += row.seconds;
      calls += row.calls;
    }
    if (without(share(by_ops)) >= kGain)
      add_share(AdviceKind::optimizer, share(by_ops),
                "the optimizer calls " + counted(calls / steps(), "op") + " of its own in a step, " +
                    of_step(by_ops) + "; optim::AdamW and its kin update all parameters in one pass");
    double waits = 0;
    std::string places;
    for (std::size_t i = 0; i < m_.autocast.waits.size(); ++i) {
      const profile::WaitRow& row = m_.autocast.waits[i];
      waits += row.seconds;
      if (i < kNamed)
        places += (i > 0 ? ", " : "") + row.call + " in " + row.place + " " +
                  fixed_text(per_step(static_cast<double>(row.calls)), 1) + " times";
    }
    if (places.empty()) return;
    add_share(
        AdviceKind::host_reads, share(waits),
        "the host reads values in each step: " + places + and_more(m_.autocast.waits.size()) + "; " +
            of_step(waits) +
            (m_.device.is_cpu() ? ", as nothing is waited for on a CPU; on a GPU each read waits for all work"
                                : "; keep them as tensors (loss.detach()), and read them every some steps"));
  }

  [[nodiscard]] std::string batch_text() const {
    if (m_.batches.empty()) return "";
    const BatchTrial& last = m_.batches.back();
    const double gain = last.f32 / last.autocast;
    const std::string batch =
        "a batch of " + std::to_string(last.samples) + ", " + std::to_string(last.times) + " times this one";
    if (gain >= kGain)
      return "autocast begins to pay at " + batch + ": " + times(gain) + " as fast as f32 there";
    return "autocast does not pay at " + batch + ", either: " + times(gain) + " of f32's speed";
  }

  [[nodiscard]] bool is_small(const profile::OpRow& row) const {
    return row.seconds < kSmallOp * m_.call_seconds * static_cast<double>(row.calls);
  }

  /// And not the kernels of a phase.
  static bool is_op(const profile::OpRow& row) { return !row.op.starts_with('('); }

  void judge_small_ops() {
    double all = 0, small = 0;
    std::int64_t calls = 0, small_calls = 0;
    for (const profile::OpRow& row : m_.autocast.ops) {
      if (!is_op(row)) continue;
      all += row.seconds;
      calls += row.calls;
      if (!is_small(row)) continue;
      small += row.seconds;
      small_calls += row.calls;
    }
    result_.facts.push_back("a step calls " + counted(calls / steps(), "op") + ", and a call costs " +
                            time_text(m_.call_seconds) + ": " +
                            percent(share(m_.call_seconds * static_cast<double>(calls))) + " of the step");
    const std::string batch = batch_text();
    if (!is_faster_ && all > 0 && small > kMost * all) {
      // Between ops: modules, nodes of the graph, the walk through it.
      const double between =
          phase_seconds(m_.autocast, "forward") + phase_seconds(m_.autocast, "backward") - all;
      const double seconds = small + std::max(0.0, between);
      add_share(AdviceKind::small_ops, share(seconds),
                grouped(small_calls / steps()) + " of " + counted(calls / steps(), "op") +
                    " take less than " + fixed_text(kSmallOp, 0) +
                    " times what a call costs; with what is between "
                    "ops " +
                    of_step(seconds) +
                    ". Casts are calls, too, and 16 bits save at most half of an op: take larger batches or "
                    "layers" +
                    (m_.device.is_cpu() ? "" : ", or amp::CapturedStep") +
                    (batch.empty() ? "" : "; " + batch));
    } else if (!m_.batches.empty()) {
      const double gain = m_.batches.back().f32 / m_.batches.back().autocast;
      if (gain >= kGain)
        add(1 - 1 / gain, {.kind = AdviceKind::batch, .text = batch, .gain = gain, .tried = true});
      else
        result_.in_vain.push_back(batch);
    }
  }

  /// What autocast leaves as it is: f32 ops that are not small, and the optimizer.
  void judge_bound() {
    const double bound = without(half_share_);
    if (!m_.watched.dtype || bound >= kLowBound) return;
    std::vector<std::pair<double, std::string>> rest(1);
    rest[0].second = "the optimizer";
    for (const char* const phase : {"step", "unscale", "clip", "check_finite", "zero_grad"})
      rest[0].first += phase_seconds(m_.autocast, phase);
    for (const profile::OpRow& row : m_.autocast.ops) {
      if (!is_half(row.dtype) && row.flop == 0 && row.op != "to_dtype" && is_op(row) && !is_small(row))
        rest.emplace_back(row.seconds, row.op + " in " + row.phase);
    }
    std::stable_sort(rest.begin(), rest.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    double all = 0;
    std::string names;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      all += rest[i].first;
      if (i < kNamed && rest[i].first > 0)
        names += (i > 0 ? ", " : "") + rest[i].second + " " + percent(share(rest[i].first));
    }
    add(share(all),
        {.kind = AdviceKind::bound,
         .text = "even free products would give " + times(bound) +
                 ": the ops that autocast runs in 16 bits have " + percent(half_share_) +
                 " of the f32 step. What stays" + (names.empty() ? " is between ops" : ": " + names),
         .gain = bound});
  }

  void judge_weights() {
    std::int64_t bytes = 0, casts = 0, computed = 0;
    std::string names;
    for (std::size_t i = 0; i < m_.watched.weights.size(); ++i) {
      const WeightCasts& row = m_.watched.weights[i];
      bytes += row.bytes;
      casts += row.casts;
      computed += row.is_computed ? 1 : 0;
      if (i < kNamed) names += (i > 0 ? ", " : "") + row.place;
    }
    if (casts == 0) return;
    const double seconds = cast_seconds_ * static_cast<double>(bytes) /
                           static_cast<double>(std::max(m_.watched.bytes, std::int64_t{1}));
    const std::string text = "weights are cast in each step: " + counted(casts, "cast") + ", " +
                             bytes_text(bytes) + ", some " + of_step(seconds) + ", in " + names +
                             and_more(m_.watched.weights.size());
    if (computed > 0)
      weights_text_ = text + "; they are computed from other parameters, so that no copy can be kept";
    const bool is_tried = std::any_of(m_.trials.begin(), m_.trials.end(), [](const Trial& trial) {
      return trial.kind == AdviceKind::weight_casts;
    });
    if (is_tried) return;
    if (without(share(seconds)) >= kGain)
      add_share(AdviceKind::weight_casts, share(seconds),
                computed > 0
                    ? weights_text_ + "; compute them once, under no_grad, where they are not trained"
                    : text +
                          "; keep the copies: AutocastOptions::cache_enabled = true, one region around all "
                          "of forward, and an optimizer of the library, which writes them anew");
  }

  static std::string text_of(const Trial& trial) {
    return trial.what + ": " + (trial.per_step > 0 ? "its products take " : "a step takes ") +
           time_text(trial.before) + ", then " + time_text(trial.after) +
           (trial.per_step > 0 ? " (" + grouped(trial.per_step) + " a step)" : "");
  }

  void judge_trials() {
    for (const Trial& trial : m_.trials) {
      const double saved = static_cast<double>(trial.per_step) * (trial.before - trial.after);
      const double gain =
          trial.per_step > 0 ? without(saved / std::max(m_.seconds, 1e-12)) : trial.before / trial.after;
      if (!trial.is_above_noise || gain < kGain) {
        result_.in_vain.push_back(
            text_of(trial) + (gain < kGain ? "" : ", which the turns do not agree on: take more .steps"));
        continue;
      }
      const std::string& cause = trial.kind == AdviceKind::weight_casts ? weights_text_ : trial.cause;
      add(1 - 1 / gain,
          {.kind = trial.kind,
           .text = (cause.empty() ? "" : cause + ". Tried: ") + text_of(trial) + "; write " + trial.write,
           .gain = gain,
           .tried = true});
    }
  }

  void judge_gradients() {
    if (m_.gradients.empty()) return;
    double worst = 0;
    std::string text = "gradients that are not 0 in f32 are 0 or subnormal in f16 at a scale of " +
                       tick_text(m_.scale) + ": ";
    std::string rules;
    for (std::size_t i = 0; i < m_.gradients.size(); ++i) {
      const LostGradients& row = m_.gradients[i];
      worst = std::max(worst, row.share);
      if (row.share_in_bf16 < kMost * row.share)
        rules += (rules.empty() ? "" : ", ") + ("{\"" + row.path + "\", DType::bf16}");
      if (i < kNamed)
        text += (i > 0 ? ", " : "") + percent(row.share) + " of " + row.path + " (by a rule of bf16 " +
                percent(row.share_in_bf16) + ")";
    }
    text += and_more(m_.gradients.size());
    if (m_.skipped > 0)
      text += "; until that scale " + counted(m_.skipped, "step") + " would have been skipped";
    text += rules.empty() ? "; write amp::Autocast(device, DType::bf16), which has the range of f32"
                          : "; write amp::ModulePrecision rules(net, {" + rules + "})";
    add(worst * kMost, {.kind = AdviceKind::gradients, .text = text});
  }

  /// Of a model that is known, whose first row holds all others.
  void judge_memory() {
    const auto& half = m_.autocast.modules;
    const auto& full = m_.f32.modules;
    if (!m_.watched.dtype || half.empty() || half.size() != full.size()) return;
    if (!half[0].path.empty() || (half.size() > 1 && half[1].depth == 0)) return;
    std::vector<std::pair<std::int64_t, std::string>> still;
    for (std::size_t i = 0; i < half.size(); ++i) {
      const auto& [row, other] = std::tie(half[i], full[i]);
      if (m_.watched.half_modules.contains(row.path)) continue;  // what it keeps is 16-bit copies, too
      const bool has_children = i + 1 < half.size() && half[i + 1].depth > row.depth;
      const double least = kStillF32 * static_cast<double>(other.kept_bytes);
      if (has_children || row.kept_bytes == 0 || static_cast<double>(row.kept_bytes) < least) continue;
      still.emplace_back(row.kept_bytes, row.path + " (" + row.type + ") " + bytes_text(row.kept_bytes));
    }
    std::stable_sort(still.begin(), still.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string names;
    for (std::size_t i = 0; i < std::min(still.size(), kNamed); ++i)
      names += (i > 0 ? ", " : "") + still[i].second;
    add(kLast,
        {.kind = AdviceKind::memory,
         .text = "kept for backward: " + bytes_text(half[0].kept_bytes) + ", in f32 " +
                 bytes_text(full[0].kept_bytes) +
                 (half[0].kept_bytes > full[0].kept_bytes ? ", with the 16-bit copies of weights" : "") +
                 (names.empty() ? "" : ". As large as in f32: " + names + and_more(still.size()))});
  }

  Measurements& m_;
  Advisory result_;
  double total_;    ///< of the profiled steps under autocast
  bool is_faster_;  ///< autocast than f32
  double half_share_ = 0, cast_seconds_ = 0;
  std::string weights_text_;  ///< of weights that are computed
  std::vector<std::pair<double, Advice>> found_;
};

}  // namespace

std::string described(const Island& island) {
  return island.op + " stays in f32 (first in " + island.place + "), and its results are cast " +
         counted(island.casts, "time") + " a step, " + bytes_text(island.bytes);
}

Advisory judge(Measurements measured) { return Judge(measured).all(); }

}  // namespace mezzo::amp::detail
