// Timed training: all modes take turns, so that what disturbs the machine disturbs all of them.
#pragma once

#include <functional>
#include <vector>

#include "workload.h"

namespace mlp_timing {

/// Where the scale stood after a step, noted when it changed.
struct ScalePoint {
  std::int64_t step = 0;
  double scale = 0;
};

/// What one mode measured.
struct Measurement {
  Mode mode;
  double total_seconds = 0;
  std::vector<double> step_seconds;  ///< on a GPU by events before and behind each step
  std::vector<double> turn_seconds;  ///< the median step of each turn
  std::int64_t peak_bytes = 0;       ///< by tensors of this mode, the resident data included
  std::int64_t peak_without_data = 0;
  std::int64_t peak_of_all = 0;  ///< bytes that all modes, and whatever else has tensors, held at once
  double final_loss = 0;
  std::int64_t steps_skipped = 0;
  std::vector<ScalePoint> scales;
  std::int64_t host_reads = 0;  ///< during the timed steps
};

/// Called after every step with the number of steps done, of all modes together.
using Progress = std::function<void(std::int64_t)>;

/// So that the start of threads and libraries is not billed to the mode that comes first: one product of the
/// workload's shape in each dtype; on a GPU, where a library also chooses an algorithm for every product it
/// has not seen, one step of each mode on a network that is thrown away. There is no other warm-up: every
/// step counts.
void start_libraries(const Workload& workload, const std::vector<Mode>& modes, const Data& data);

/// Trains a fresh model, optimizer and scaler per mode, each from the same weights on the same batches. Modes
/// take turns of some steps, 15 turns or fewer, each second time in reverse order. The clock covers the steps
/// of a turn; before and after it the device is synchronised, and at no step in between. The process' TF32
/// setting is as before in the end. Throws std::logic_error if outputs, losses, gradients or parameters have
/// another dtype than the mode says.
[[nodiscard]] std::vector<Measurement> measure(const Workload& workload, const std::vector<Mode>& modes,
                                               const Data& data, const Progress& progress);

/// The median of what happened several times, and between which values the true one lies (95 %, by the order
/// of the values alone; low and high are the extremes and `certain` is false for fewer than six).
struct Spread {
  double median = 0, low = 0, high = 0;
  bool certain = false;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

/// How many times as fast as `baseline` a mode was, turn by turn.
[[nodiscard]] Spread speedup(const Measurement& baseline, const Measurement& mode);

}  // namespace mlp_timing
