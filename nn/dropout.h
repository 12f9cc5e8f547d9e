// Dropout: noise while training, nothing in evaluation mode.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// `dropout` (ops/random.h) with probability p while the module is training, x itself otherwise. Masks come
/// from `generator`, or the default one. Throws ValueError unless p is in [0, 1].
class Dropout final : public Layer {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double p_;
  Generator* generator_;
};

}  // namespace mezzo::nn
