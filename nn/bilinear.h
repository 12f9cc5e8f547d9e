// Bilinear: a layer that is linear in each of two inputs.
#pragma once

#include "mezzo/nn/linear.h"

namespace mezzo::nn {

using BilinearOptions = LinearOptions;

/// `bilinear`: a [.., in1], b [.., in2] -> sum_ij a_i weight_oij b_j + bias_o [.., out], with weight [out,
/// in1, in2] and bias [out]. Both begin uniform within 1/sqrt(in1) of 0, weight drawn first (as
/// torch.nn.Bilinear). Throws: ValueError for sizes below 1; forward throws ShapeError, naming the layer's
/// path, for other last dims, and what `bilinear` (ops/tensor_product.h) throws.
class Bilinear final : public Module {
 public:
  using Options = BilinearOptions;
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           const BilinearOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& a, const Tensor& b);
  /// forward(a, b), seen by observers (nn/call.h).
  [[nodiscard]] Tensor operator()(const Tensor& a, const Tensor& b) { return call(*this, a, b); }
  /// Draws weight and bias anew.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::int64_t in1_features() const noexcept { return in1_features_; }
  [[nodiscard]] std::int64_t in2_features() const noexcept { return in2_features_; }
  [[nodiscard]] std::int64_t out_features() const noexcept { return out_features_; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;

 private:
  std::int64_t in1_features_, in2_features_, out_features_;
};

}  // namespace mezzo::nn
