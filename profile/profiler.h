// Where the time of training steps goes: by phase, by op, by module, and what the host waited for.
//   profile::Profiler profiler({.model = net, .warmup = 3, .steps = 10});
//   for (const auto& [x, y] : loader) { const auto step = profiler.step(); ... }
//   std::cout << profiler.report();
//   profiler.write_chrome_trace("trace.json");  // chrome://tracing, https://ui.perfetto.dev
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "mezzo/nn/module.h"
#include "mezzo/profile/report.h"

namespace mezzo::profile {

struct ProfilerOptions {
  /// Whose modules get rows under their paths. Modules outside of it, or all without it, get rows when they
  /// are first called.
  nn::ModelRef model = {};
  std::int64_t warmup = 3;  ///< steps before the recorded ones
  std::int64_t steps = 10;  ///< recorded ones; at least 1
  /// Whose times are measured. Default: the device of the model's first parameter, else the CPU.
  std::optional<Device> device = {};
  bool shapes = false;  ///< a row of ops for each shape of the inputs
  bool rates = true;    ///< measure, once in a process, what the device reaches (OpRow::reached)
  bool nvtx = false;    ///< NVTX ranges of ops, modules and phases, for Nsight; in builds with CUDA's headers
  std::string trace = {};  ///< a file that write_chrome_trace writes when the last step has ended
};

/// Records the ops, modules and phases of the steps that it is told of, on all threads, and nothing before
/// and after. Profilers record one at a time; a step that cannot be recorded runs as ever, with one warning.
/// Recording takes some 0.5 us per op. On a CUDA device it puts two events around each, which are read after
/// the last step, so that steps stay asynchronous.
class Profiler : mezzo::detail::NoCopy {
 public:
  /// Throws: ValueError for a warmup below 0 or no step.
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();

  /// A step while it lives. It need not be recorded.
  class [[nodiscard]] Step {
   public:
    Step() = default;
    explicit Step(Profiler* profiler) noexcept : profiler_(profiler) {}
    Step(Step&& other) noexcept : profiler_(std::exchange(other.profiler_, nullptr)) {}
    Step& operator=(Step&& other) = delete;
    ~Step() {
      if (profiler_ != nullptr) profiler_->end_step();
    }

   private:
    Profiler* profiler_ = nullptr;
  };
  /// Begins a step, which ends with the result.
  Step step();
  /// Ends the recording before its last step; what has been recorded counts.
  void stop();

  /// Whether it records, and whether that is over.
  [[nodiscard]] bool is_recording() const noexcept;
  [[nodiscard]] bool is_done() const noexcept;
  /// What was recorded; of a recording that goes on, nothing yet. The first call may measure the device.
  [[nodiscard]] Report report() const;
  /// Writes what was recorded in Chrome's trace format, all or nothing: a track for each thread and, on a
  /// CUDA device, one for its work. Throws: IoError when the file cannot be written, StateError before the
  /// end of the recording.
  void write_chrome_trace(const std::string& path) const;

 private:
  struct State;
  void end_step() noexcept;
  void finish() noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace mezzo::profile
