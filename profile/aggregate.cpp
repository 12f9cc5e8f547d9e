// From spans to rows. What is asked of a span (its phase, whether it is in a backward) follows from the spans
// around it, which stand before it on its track.
#include <algorithm>
#include <map>
#include <tuple>

#include "mezzo/core/error.h"
#include "mezzo/profile/views.h"

namespace mezzo::profile {

namespace {

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// Of each span of a track: the innermost phase around it, and what else is.
struct Around {
  std::int32_t phase = -1;  ///< span
  bool in_work = false;     ///< a module, op or gradient is around it, within the phase
  bool in_wait = false;     ///< another wait is
  bool in_backward = false, in_gradient = false;
  bool in_own_call = false;  ///< a call of a module within a call of the same one
};

bool is_in_own_call(const Track& track, const Span& span) {
  if (span.kind != ActivityKind::module_call) return false;
  for (std::int32_t i = span.parent; i >= 0; i = track.spans[static_cast<std::size_t>(i)].parent) {
    const Span& outer = track.spans[static_cast<std::size_t>(i)];
    if (outer.kind == ActivityKind::module_call && outer.module == span.module) return true;
  }
  return false;
}

std::vector<Around> surroundings(const Track& track) {
  std::vector<Around> all(track.spans.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Span& span = track.spans[i];
    if (span.parent < 0) continue;
    const Span& parent = track.spans[static_cast<std::size_t>(span.parent)];
    Around& around = all[i] = all[static_cast<std::size_t>(span.parent)];
    around.in_wait |= parent.kind == ActivityKind::host_wait;
    around.in_gradient |= parent.kind == ActivityKind::gradient;
    around.in_backward |=
        around.in_gradient || (parent.kind == ActivityKind::phase && parent.name == "backward");
    around.in_own_call = is_in_own_call(track, span);
    if (parent.kind == ActivityKind::phase) {
      around.phase = span.parent;
      around.in_work = false;
    } else {
      around.in_work = true;
    }
  }
  return all;
}

std::string dtype_text(const Span& span) {
  if (!span.is_described) return "";
  return span.name == "to_dtype" ? to_string(span.from) + " -> " + to_string(span.dtype)
                                 : to_string(span.dtype);
}

class Aggregate {
 public:
  explicit Aggregate(const Recording& recording) : recording_(recording) {
    result_.device = recording.device;
    result_.steps = static_cast<std::int64_t>(recording.step_ends.size());
    result_.peak_bytes = recording.peak_bytes;
    result_.peak_place = recording.peak_place;
    if (result_.steps == 0) return;
    add_steps();
    add_module_rows();
    for (const Track& track : recording.tracks) add(track);
    finish_modules();
    finish();
  }
  [[nodiscard]] Report take() { return std::move(result_); }

 private:
  void add_steps() {
    std::int64_t before = recording_.begin;
    for (const std::int64_t end : recording_.step_ends) {
      const double took = seconds(end - before);
      result_.shortest = before == recording_.begin ? took : std::min(result_.shortest, took);
      result_.longest = std::max(result_.longest, took);
      before = end;
    }
    result_.seconds = seconds(before - recording_.begin);
    result_.cpu_seconds = seconds(recording_.cpu);
  }

  void add_module_rows() {
    for (const ModuleEntry& entry : recording_.modules) {
      result_.modules.push_back({.depth = entry.depth,
                                 .path = entry.path,
                                 .type = entry.type,
                                 .kept_bytes = entry.kept_bytes / result_.steps});
    }
    op_seconds_.resize(result_.modules.size());
  }

  void add(const Track& track) {
    const std::vector<Around> around = surroundings(track);
    double busy = 0;
    for (std::size_t i = 0; i < around.size(); ++i) {
      const Span& span = track.spans[i];
      const std::string phase = phase_of(track, around[i]);
      if (span.parent < 0) busy += seconds(span.host());
      switch (span.kind) {
        case ActivityKind::op:
          add_op(span, phase);
          break;
        case ActivityKind::gradient:
          add_gradient(span, around[i]);
          break;
        case ActivityKind::module_call:
          add_module(span, around[i]);
          break;
        case ActivityKind::host_wait:
          add_wait(track, span, around[i]);
          break;
        case ActivityKind::phase:
        case ActivityKind::worker:
          break;
      }
      if (span.kind == ActivityKind::op) add_op_to_module(span, around[i]);
      if (track.makes_steps) add_to_phases(track, i, around);
    }
    if (!track.makes_steps) result_.threads.push_back({track.name, busy});
  }

  [[nodiscard]] static std::string phase_of(const Track& track, const Around& around) {
    if (around.phase >= 0) return std::string(track.spans[static_cast<std::size_t>(around.phase)].name);
    return track.makes_steps ? "forward" : track.name;
  }

  void add_op(const Span& span, const std::string& phase) {
    OpRow& row = ops_[{std::string(span.name), phase, dtype_text(span), span.shapes}];
    ++row.calls;
    row.seconds += seconds(span.work());
    row.host_seconds += seconds(span.host());
    row.cpu_seconds += seconds(std::clamp<std::int64_t>(span.cpu, 0, span.host()));  // clocks take time, too
    row.bytes += span.bytes;
    row.flop += span.flop;
  }

  /// On a CUDA device, where the host is done before the work is.
  void add_op_to_module(const Span& span, const Around& around) {
    if (span.module < 0 || recording_.device.is_cpu()) return;
    auto& [forward, backward] = op_seconds_[static_cast<std::size_t>(span.module)];
    (around.in_backward ? backward : forward) += seconds(span.work());
  }

  void add_gradient(const Span& span, const Around& around) {
    if (span.module < 0 || !recording_.device.is_cpu() || around.in_gradient) return;
    op_seconds_[static_cast<std::size_t>(span.module)].second += seconds(span.host());
  }

  void add_module(const Span& span, const Around& around) {
    ModuleRow& row = result_.modules[static_cast<std::size_t>(span.module)];
    // Computed again, which is in the gradient's time; or a call within its own call.
    if (around.in_backward || around.in_own_call) return;
    ++row.calls;
    if (recording_.device.is_cpu()) row.forward_seconds += seconds(span.host());
  }

  void add_wait(const Track& track, const Span& span, const Around& around) {
    if (around.in_wait) return;
    std::string place = around.phase < 0 && track.makes_steps ? "the step" : phase_of(track, around);
    if (span.module >= 0) {
      const ModuleRow& module = result_.modules[static_cast<std::size_t>(span.module)];
      place = module.path.empty() ? module.type : module.path;
    }
    WaitRow& row = waits_[{std::string(span.name), place}];
    ++row.calls;
    row.seconds += seconds(span.host());
  }

  /// Each phase without those in it; what is in none is forward where it is a module or an op.
  void add_to_phases(const Track& track, std::size_t i, const std::vector<Around>& around) {
    const Span& span = track.spans[i];
    const std::int32_t outer = around[i].phase;
    const bool is_phase = span.kind == ActivityKind::phase;
    if (is_phase) {
      PhaseRow& row = phases_[std::string(span.name)];
      const bool is_nested = outer >= 0 && track.spans[static_cast<std::size_t>(outer)].name == span.name;
      if (!is_nested) ++row.calls;
      row.seconds += seconds(span.host());
      if (span.device >= 0) row.device_seconds += seconds(span.device);
      if (span.name == "replay") ++result_.replays;
    }
    if (outer >= 0) {
      if (!is_phase) return;
      PhaseRow& row = phases_[std::string(track.spans[static_cast<std::size_t>(outer)].name)];
      row.seconds -= seconds(span.host());
      if (span.device >= 0) row.device_seconds -= seconds(span.device);
      return;
    }
    PhaseRow& forward = phases_[span.kind == ActivityKind::host_wait ? "wait" : "forward"];
    if (is_phase && around[i].in_work) forward.seconds -= seconds(span.host());
    if (!is_phase && !around[i].in_work) {
      ++forward.calls;
      forward.seconds += seconds(span.host());
    }
    if (span.kind == ActivityKind::op && span.device >= 0) forward.device_seconds += seconds(span.device);
  }

  /// What children hold is their parents', too; on the CPU calls have their children's time in them.
  void finish_modules() {
    for (std::size_t i = result_.modules.size(); i-- > 0;) {
      ModuleRow& row = result_.modules[i];
      row.forward_seconds += op_seconds_[i].first;
      row.backward_seconds += op_seconds_[i].second;
      if (recording_.modules[i].parent < 0) continue;
      const auto parent = static_cast<std::size_t>(recording_.modules[i].parent);
      if (!recording_.device.is_cpu()) op_seconds_[parent].first += row.forward_seconds;
      op_seconds_[parent].second += row.backward_seconds;
      result_.modules[parent].kept_bytes += row.kept_bytes;
    }
  }

  /// The kernels of optimizer, scaler and clipping, which are no ops: a row of each phase's time outside of
  /// its ops.
  void add_kernels() {
    for (const char* const name : {"step", "check_finite", "unscale", "clip", "update"}) {
      const auto phase = phases_.find(name);
      if (phase == phases_.end()) continue;
      OpRow row;
      row.calls = phase->second.calls;
      row.host_seconds = phase->second.seconds;
      row.seconds = recording_.device.is_cpu() ? row.host_seconds : phase->second.device_seconds;
      for (const auto& [key, op] : ops_) {
        if (std::get<1>(key) != name) continue;
        row.seconds -= op.seconds;
        row.host_seconds -= op.host_seconds;
      }
      row.cpu_seconds = row.host_seconds;
      row.seconds = std::max(row.seconds, 0.0);
      ops_[{"(" + std::string(name) + ")", name, "", ""}] = row;
    }
  }

  void finish() {
    add_kernels();
    double all_ops = 0, all_phases = 0;
    for (const auto& [key, row] : ops_) all_ops += row.seconds;
    for (auto& [key, row] : ops_) {
      std::tie(row.op, row.phase, row.dtype, row.shapes) = key;
      row.share = all_ops > 0 ? row.seconds / all_ops : 0;
      result_.ops.push_back(std::move(row));
    }
    for (auto& [name, row] : phases_) {
      row.phase = name;
      all_phases += row.seconds;
      result_.phases.push_back(std::move(row));
    }
    result_.phases.push_back({.phase = "other", .seconds = std::max(0.0, result_.seconds - all_phases)});
    for (auto& [key, row] : waits_) {
      std::tie(row.call, row.place) = key;
      result_.waits.push_back(std::move(row));
    }
    const auto longer = [](const auto& a, const auto& b) { return a.seconds > b.seconds; };
    std::stable_sort(result_.ops.begin(), result_.ops.end(), longer);
    std::stable_sort(result_.phases.begin(), result_.phases.end(), longer);
    std::stable_sort(result_.waits.begin(), result_.waits.end(),
                     [](const WaitRow& a, const WaitRow& b) { return a.calls > b.calls; });
  }

  const Recording& recording_;
  Report result_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, OpRow> ops_;
  std::map<std::string, PhaseRow> phases_;
  std::map<std::pair<std::string, std::string>, WaitRow> waits_;
  std::vector<std::pair<double, double>>
      op_seconds_;  // forward and backward, of each module without children
};

}  // namespace

Report report_of(const Recording& recording) { return Aggregate(recording).take(); }

}  // namespace mezzo::profile
