// How the timing sample shows its results: a banner, one aligned table, the scale's course, the verdict, and
// the same facts as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure.h"
#include "mezzo/core/value.h"

namespace mlp_timing {

/// Two or three lines: library and device, what they run on and why, and the workload.
[[nodiscard]] std::string banner(const Workload& workload);

/// One row per mode, and a caption that says what was timed and how. Speed-ups are those over the first mode.
/// For a GPU also the TF32 state of each mode.
[[nodiscard]] std::string table(const Workload& workload, const std::vector<Measurement>& runs);

/// One line when other processes took so much of the processors' time that it shows; else nothing.
[[nodiscard]] std::string other_processes(std::optional<double> share);

/// Where the scale went and how many steps were skipped, one line per run with a scaler.
[[nodiscard]] std::string scale_report(const std::vector<Measurement>& runs);

/// Whether mixed precision was faster here, and why (not), or that it cannot be told: than f32, and on a GPU
/// than f32 with TF32; and what capturing the step did.
[[nodiscard]] std::string verdict(const Workload& workload, const std::vector<Measurement>& runs);

/// Everything above in numbers.
[[nodiscard]] mezzo::Value to_value(const Workload& workload, const std::vector<Measurement>& runs,
                                    std::optional<double> others);

/// A bar on stderr that redraws itself, only when stderr is a terminal. Erases itself when it goes.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(std::int64_t done);

 private:
  std::string label_;
  std::int64_t total_;
  bool active_;
  int last_percent_ = -1;
};

}  // namespace mlp_timing
