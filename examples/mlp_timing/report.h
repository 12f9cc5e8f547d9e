// How the timing sample shows its results: a banner, one aligned table, the scale's course, the verdict, and
// the same facts as JSON.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/value.h"
#include "workload.h"

namespace mlp_timing {

/// Two or three lines: library and device, what they run on and why, and the workload.
[[nodiscard]] std::string banner(const Workload& workload);

/// One row per run. The speed-up is the first run's median step over this run's. For a GPU also the TF32
/// state of each run, and a caption that says what was timed and how.
[[nodiscard]] std::string table(const Workload& workload, const std::vector<Measurement>& runs);

/// Where the scale went and how many steps were skipped, one line per run with a scaler.
[[nodiscard]] std::string scale_report(const std::vector<Measurement>& runs);

/// Whether mixed precision was faster here, and why (not): than f32, and on a GPU than f32 with TF32; and
/// what capturing the step did.
[[nodiscard]] std::string verdict(const Workload& workload, const std::vector<Measurement>& runs);

/// Everything above in numbers.
[[nodiscard]] mezzo::Value to_value(const Workload& workload, const std::vector<Measurement>& runs);

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
