// Activation functions as layers, for use in Sequential. The functions, their formulas and errors are in
// ops/pointwise.h and ops/softmax.h.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

/// `relu`: max(x, 0).
class ReLU final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `gelu`, exact or by its tanh approximation.
class GELU final : public Layer {
 public:
  explicit GELU(GeluApproximation approximate = GeluApproximation::none) : approximate_(approximate) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  GeluApproximation approximate_;
};

/// `sigmoid`: 1 / (1 + e^-x).
class Sigmoid final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `tanh`.
class Tanh final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `silu`: x sigmoid(x).
class SiLU final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `softmax` along `dim`.
class Softmax final : public Layer {
 public:
  explicit Softmax(std::int64_t dim) : dim_(dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t dim_;
};

/// `log_softmax` along `dim`.
class LogSoftmax final : public Layer {
 public:
  explicit LogSoftmax(std::int64_t dim) : dim_(dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t dim_;
};

}  // namespace mezzo::nn
