// What a profiler has measured, as tables and as a Value.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/value.h"

namespace mezzo::profile {

/// Calls of an op with the same dtypes in the same phase. Numbers are sums over all steps.
struct OpRow {
  /// Its name; in parentheses a phase, "(step)", for kernels of optimizer, scaler and clipping that are no
  /// ops.
  std::string op;
  /// The phase that it ran in: "forward", "backward", "step", ... (PhaseRow::phase); of another thread than
  /// the one that makes the steps, that thread's name.
  std::string phase;
  std::string dtype;   ///< of the result; of a cast "f32 -> bf16"
  std::string shapes;  ///< of the inputs; empty unless ProfilerOptions::shapes
  std::int64_t calls = 0;
  double seconds = 0;  ///< on the device: on a CUDA device between two events, on the CPU host_seconds
  double host_seconds = 0;
  double cpu_seconds = 0;  ///< that its thread was running; helpers not counted
  double share = 0;        ///< of the seconds of all ops
  std::int64_t bytes = 0;  ///< of the elements of inputs and results, each once per call; of a view 0
  /// Floating-point operations of products, convolutions, attention and recurrent cells: two for each
  /// multiplication of nn/summary/mult_adds.h. 0 for all other ops.
  std::int64_t flop = 0;
  /// FLOP per second as a part of what a large matrix product of that dtype reaches here; for ops without
  /// FLOP, bytes per second as a part of what a large copy reaches. Only with ProfilerOptions::rates.
  std::optional<double> reached = {};
};

/// A module and all below it.
struct ModuleRow {
  std::int64_t depth = 0;
  std::string path;  ///< of the model itself ""
  std::string type;
  std::int64_t calls = 0;
  double forward_seconds = 0, backward_seconds = 0;  ///< on the device
  /// What its ops saved for backward and nobody had saved before, parameters not counted: of one step.
  std::int64_t kept_bytes = 0;
};

/// A part of the steps, without the phases in it; all phases together are the time of the steps.
struct PhaseRow {
  /// "loader", "copy to device", "forward" (modules and ops outside of all phases, the loss too), "backward",
  /// "check_finite" (GradScaler.step looks at the gradients), "unscale", "clip", "step", "update",
  /// "schedule", "zero_grad", "replay" (of a captured step), "logging", "evaluation", "checkpoint", "wait"
  /// (WaitRow, outside of all phases), or "other".
  std::string phase;
  std::int64_t calls = 0;
  double seconds = 0;         ///< of the host
  double device_seconds = 0;  ///< between events at begin and end; 0 on the CPU
};

/// The host read values of a device, or waited for it (mezzo::host_reads).
struct WaitRow {
  std::string call;   ///< "item", "to_vector", "data", "to", "synchronize", ...
  std::string place;  ///< the path of the module that ran, else the phase, else "the step"
  std::int64_t calls = 0;
  double seconds = 0;
};

/// How long a thread of the library worked: "helper 1" of the thread pool, "loader worker 1"; or another
/// thread of the program that ran ops.
struct ThreadRow {
  std::string thread;
  double seconds = 0;
};

struct Report {
  Device device;
  std::int64_t steps = 0;  ///< 0: none was recorded
  /// From the end of the step before the first one to the end of the last one, so that what a loop does
  /// between its steps (the loader) is in it.
  double seconds = 0;
  double cpu_seconds = 0;            ///< that the thread was running
  double shortest = 0, longest = 0;  ///< step
  std::int64_t replays = 0;          ///< of captured steps, whose ops are seen in one step that ran eagerly
  std::vector<OpRow> ops;            ///< longest first
  std::vector<ModuleRow> modules;    ///< parents first, in order of declaration
  std::vector<PhaseRow> phases;      ///< longest first
  std::vector<WaitRow> waits;        ///< most calls first
  std::vector<ThreadRow> threads;
  /// The most that tensors held when an op had run, and which one, with its module.
  std::int64_t peak_bytes = 0;
  std::string peak_place;

  /// The numbers of the rows under the names of their members.
  [[nodiscard]] Value to_value() const;
};

/// Tables: phases, ops (the 25 longest), modules (3 levels), waits, threads, memory. Times are per step.
[[nodiscard]] std::string to_string(const Report& report);
std::ostream& operator<<(std::ostream& stream, const Report& report);

}  // namespace mezzo::profile
