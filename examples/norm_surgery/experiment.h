// Trains one model several times, each time with its norm layers in another precision, from the same weights
// on the same batches, and measures what that costs. Knows neither the command line nor how results are
// printed.
#pragma once

#include <string>
#include <vector>

#include "images.h"
#include "mezzo/mezzo.h"

namespace norm_surgery {

/// What is the same for all runs.
struct Settings {
  mezzo::Device device;
  mezzo::amp::Precision precision = mezzo::amp::Precision::amp_bf16;  ///< amp_bf16 or amp_fp16
  std::int64_t steps = 60;
  double lr = 2e-3;
  std::uint64_t seed = 0;

  [[nodiscard]] mezzo::DType dtype() const {
    return precision == mezzo::amp::Precision::amp_fp16 ? mezzo::DType::f16 : mezzo::DType::bf16;
  }
};

/// How the norms of a run run.
enum class Norms { no_autocast, f32, low_precision, fused };
[[nodiscard]] std::string name_of(Norms norms);

/// Operates on a model as a run does.
[[nodiscard]] mezzo::nn::surgery::Report operate(mezzo::nn::Module& model, Norms norms,
                                                 const Settings& settings,
                                                 const mezzo::amp::Optimizers& optimizers = {});

/// What one run measured.
struct Result {
  Norms norms = Norms::f32;
  std::vector<double> step_seconds;      ///< without the first steps, in which memory and libraries warm up
  std::int64_t activation_bytes = 0;     ///< that live between forward and backward
  double first_loss = 0, last_loss = 0;  ///< means over the first and the last tenth of the steps
  std::int64_t steps_skipped = 0;        ///< by the GradScaler, which f16 has
};

/// One run of the model called `name`.
[[nodiscard]] Result train(const std::string& name, Norms norms, const Settings& settings,
                           const std::vector<Batch>& batches);

}  // namespace norm_surgery
