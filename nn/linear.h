// Linear: the fully connected layer.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// Options of Linear and of other layers of such weights and biases.
struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
  Device device = Device::cpu();
  Generator* generator = nullptr;  ///< of the first values; nullptr: the default one
};

/// x [.., in] -> x weight^T + bias [.., out], with weight [out, in] and bias [out]. Both begin uniform within
/// 1/sqrt(in) of 0, weight drawn first (as torch.nn.Linear). Throws: ValueError for sizes below 1; forward
/// throws ShapeError, naming the layer's path, for another last dim, and what `linear` (ops/matmul.h) throws.
class Linear : public Layer {
 public:
  using Options = LinearOptions;
  Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options = {});
  Linear(const Linear& original, ShareTensors);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  /// Draws weight and bias anew.
  void reset_parameters(Generator& generator = default_generator());
  [[nodiscard]] std::int64_t in_features() const noexcept { return in_features_; }
  [[nodiscard]] std::int64_t out_features() const noexcept { return out_features_; }
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
  Param bias;

 protected:
  /// The weight that forward multiplies by. A parametrization (nn/parametrizations.h) computes it.
  [[nodiscard]] virtual Tensor computed_weight() const { return weight; }

 private:
  std::int64_t in_features_, out_features_;
};

}  // namespace mezzo::nn
