// The workload of the timing sample: what is trained, how, and what one timed run of it measured. Knows
// neither the command line nor how results are printed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/mezzo.h"

namespace mlp_timing {

/// Every number of the workload.
struct Workload {
  std::string name = "auto";  ///< which preset it started from, for the report
  mezzo::Device device;
  std::vector<std::int64_t> sizes;  ///< features: input, hidden..., output
  std::int64_t batch_size = 128;
  std::int64_t num_batches = 50;
  std::int64_t epochs = 3;
  double lr = 1e-3;
  std::uint64_t seed = 0;
  double init_scale = 65536;
  std::int64_t growth_interval = 2000;

  [[nodiscard]] std::int64_t steps() const { return num_batches * epochs; }
  [[nodiscard]] std::int64_t parameters() const;
  /// Bytes of the resident inputs and targets, and a lower bound of all that a run needs beside them.
  [[nodiscard]] double data_bytes() const;
  [[nodiscard]] double working_bytes() const;
};

/// Throws ValueError for sizes below 1 and for a workload that this machine's memory cannot hold.
void check(const Workload& workload);

/// The preset sizes: "seed" is the PyTorch recipe's (3 x Linear(4096, 4096), batch 512, 50 batches, 3
/// epochs); "small" the 8-16-16-1 network; "auto" is "seed" on a GPU, and on a CPU 512 wide with batches of
/// 128, which a laptop finishes in seconds. Throws ValueError.
[[nodiscard]] Workload preset(const std::string& name, mezzo::Device device);

/// What a run does besides training in f32.
struct Mode {
  std::string key;   ///< as --modes names it
  std::string name;  ///< as the table does
  mezzo::DType dtype = mezzo::DType::f32;
  bool autocast = false;
  bool scaler = false;
  bool tf32 = false;      ///< f32 products may run in TF32
  bool captured = false;  ///< recorded into a CUDA graph and replayed

  [[nodiscard]] bool needs_cuda() const { return tf32 || captured; }
};
/// Default precision, on a GPU without and with TF32; autocast alone and with GradScaler, in f16, where a GPU
/// also has it captured, and in bf16. The first is the baseline.
[[nodiscard]] std::vector<Mode> all_modes();

/// The same normal data for every run, on the device.
struct Data {
  std::vector<mezzo::Tensor> inputs, targets;
};
[[nodiscard]] Data make_data(const Workload& workload);

/// So that the start of threads and libraries is not billed to the run that comes first: one product of the
/// workload's shape in each dtype; on a GPU, where a library also chooses an algorithm for every product it
/// has not seen, one step of each mode on a network that is thrown away. Runs have no warm-up: every step
/// counts.
void start_libraries(const Workload& workload, const std::vector<Mode>& modes, const Data& data);

/// Where the scale stood after a step, noted when it changed.
struct ScalePoint {
  std::int64_t step = 0;
  double scale = 0;
};

/// What one run measured.
struct Measurement {
  Mode mode;
  double total_seconds = 0;
  std::vector<double> step_seconds;  ///< on a GPU by events before and behind each step
  std::int64_t peak_bytes = 0;       ///< by tensors, the resident data included
  std::int64_t peak_without_data = 0;
  double final_loss = 0;
  std::int64_t steps_skipped = 0;
  std::vector<ScalePoint> scales;
  std::int64_t host_reads = 0;  ///< during the timed steps
};

/// Called after every step with the number of steps done.
using Progress = std::function<void(std::int64_t)>;

/// Trains a fresh model, optimizer and scaler in one mode. The clock covers the steps only: before, the
/// allocator's cache is emptied, its peak reset and the device synchronised; after, it is synchronised again,
/// and at no step in between. The process' TF32 setting is as before in the end.
/// Throws std::logic_error if outputs, losses, gradients or parameters have another dtype than the mode says.
[[nodiscard]] Measurement run(const Workload& workload, const Mode& mode, const Data& data,
                              const Progress& progress);

}  // namespace mlp_timing
