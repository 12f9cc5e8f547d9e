// The network of the lab, whose layers can be made to overflow or underflow, and what it learns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fault.h"
#include "mezzo/mezzo.h"

namespace scaler_lab {

constexpr std::int64_t kFeatures = 32, kClasses = 10;

/// A Linear, GELU unless it is the last one, and the faults that act at this step.
class Stage final : public mezzo::nn::Layer {
 public:
  Stage(std::int64_t in, std::int64_t out, bool last);
  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& x) override;
  /// Replaces the faults that act from now on.
  void set_faults(const std::vector<FaultKind>& faults);
  /// The gradient that the last backward gave the result of a stage with faults, as they have left it.
  [[nodiscard]] const mezzo::Tensor& gradient() const { return gradient_; }

  mezzo::nn::Child<mezzo::nn::Linear> fc;

 private:
  bool last_;
  bool overflows_ = false;        ///< forward
  double gradient_factor_ = 1.0;  ///< what faults multiply the gradient of the result with
  mezzo::Tensor gradient_;
};

/// Names of the stages, from input to output.
[[nodiscard]] const std::vector<std::string>& layer_names();

/// The stages in a row: [N, kFeatures] -> scores [N, kClasses].
[[nodiscard]] std::shared_ptr<mezzo::nn::Sequential> make_network();

/// A batch: features [N, kFeatures] and classes [N].
struct Batch {
  mezzo::Tensor features, classes;
};

/// `count` batches of points in noise around one centre per class.
[[nodiscard]] std::vector<Batch> make_batches(std::int64_t count, std::int64_t batch_size,
                                              mezzo::Device device);

}  // namespace scaler_lab
