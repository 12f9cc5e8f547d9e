// The workload of the timing sample: what is trained, and in which modes. Knows neither the command line nor
// how results are measured and printed.
#pragma once

#include <string>
#include <vector>

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

/// Throws ValueError for sizes below 1 and for a workload that this machine's memory cannot hold in as many
/// modes.
void check(const Workload& workload, std::size_t modes);

/// The preset sizes: "seed" is the PyTorch recipe's (3 x Linear(4096, 4096), batch 512, 50 batches, 3
/// epochs); "small" the 8-16-16-1 network; "auto" is "seed" on a GPU, and on a CPU 512 wide with batches of
/// 128, which a laptop finishes in seconds. Throws ValueError.
[[nodiscard]] Workload preset(const std::string& name, mezzo::Device device);

/// What training does besides training in f32.
struct Mode {
  std::string key;   ///< as --modes names it
  std::string name;  ///< as the table does
  mezzo::DType dtype = mezzo::DType::f32;
  bool autocast = false;
  bool scaler = false;
  bool tf32 = false;      ///< f32 products may run in TF32
  bool fp8 = false;       ///< products in float8 (amp/float8.h)
  bool captured = false;  ///< recorded into a CUDA graph and replayed

  [[nodiscard]] bool needs_cuda() const { return tf32 || captured; }
};
/// Default precision, on a GPU without and with TF32; autocast alone and with GradScaler, in f16, where a GPU
/// also has it captured, in bf16, and in float8. The first is the baseline.
[[nodiscard]] std::vector<Mode> all_modes();

/// The same normal data for every run, on the device.
struct Data {
  std::vector<mezzo::Tensor> inputs, targets;
};
[[nodiscard]] Data make_data(const Workload& workload);

}  // namespace mlp_timing
