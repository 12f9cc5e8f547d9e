// The predicted training steps of docs/cuda_steps.md: launches in order, their bytes, and the time that these
// and the products take at stated rates. Counts, of what the emulated device runs, and no measurements.
#pragma once

#include <string>
#include <vector>

#include "emulated_cuda/ledger.h"

namespace mezzo::step_table {

inline constexpr const char* kRenew =
    "cmake --build --preset cuda-emulated --target step_table && build/cuda-emulated/tools/step_table";

/// What an H200 is assumed to do: the one place where these numbers stand.
struct Rates {
  double copy_bytes = 4.3e12;  ///< per second, read and written together: a large copy, measured
  double operations_16_bit =
      600e12;  ///< per second, of products from 16 bits; 790e12 measured for 8192 cubed
  double operations_tf32 = 370e12;
  double operations_f32 = 52e12;    ///< of products in f32 without TF32
  double launch = 1.3e-6;           ///< seconds from the end of a launch to the begin of the next
  double launch_captured = 0.8e-6;  ///< the same in a graph
  int multiprocessors = 132;        ///< for grids that depend on them
};

/// Seconds that an entry takes without the way to the next one.
[[nodiscard]] double seconds_of(const emulated_cuda::LedgerEntry& entry, const Rates& rates);

/// A step that is run, and what stands above its table.
struct Step {
  std::string title, about;
  std::vector<emulated_cuda::LedgerEntry> entries;
};
/// The steps of the page, run on the emulated device: the seed's, a GPT block's and a convolution's.
[[nodiscard]] std::vector<Step> run_steps();

/// The page.
[[nodiscard]] std::string to_markdown(const std::vector<Step>& steps, const Rates& rates = {});

}  // namespace mezzo::step_table
