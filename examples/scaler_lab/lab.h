// Trains the network under f16 autocast with a GradScaler while faults are injected, and takes down what
// became of every step. Knows neither the command line nor how results are shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fault.h"
#include "mezzo/mezzo.h"
#include "mezzo/nn/anomaly.h"

namespace scaler_lab {

struct Settings {
  mezzo::Device device;
  std::int64_t steps = 120, batch_size = 64;
  double lr = 2e-3;
  std::uint64_t seed = 0;
  mezzo::amp::GradScalerOptions scaler = {.growth_interval = 20};
  std::vector<Fault> faults;
};

/// The share of zeros in the f16 gradients of what the layers with an underflow return, from 0 to 1.
struct ZeroShares {
  double scaled = 0;    ///< with the scale of the step
  double unscaled = 0;  ///< the same step with scale 1
};

/// One step.
struct Row {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;
  double scale = 0;  ///< that it ran with
  bool skipped = false;
  /// Of a skipped step: the first parameter with a gradient that is not finite, seen from the output.
  std::string parameter;
  std::optional<mezzo::autograd::Anomaly> first;  ///< of a skipped step: the first op that went wrong
  std::optional<ZeroShares> zeros;                ///< of a step with an underflow
  std::string injected;                           ///< "overflow forward at hidden1"; empty: nothing
};

/// Runs all steps. Ordinary steps are not slowed by the search for the first op: a skipped step, which has
/// left the weights as they were, is run a second time on its batch to be looked at, and so is a step with an
/// underflow for the gradients that scale 1 gives. (Reading loss, scale and result in every step is what a
/// training would not do.)
[[nodiscard]] std::vector<Row> run(const Settings& settings);

}  // namespace scaler_lab
