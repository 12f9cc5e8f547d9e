// Activation functions as layers, for use in Sequential. The functions, their formulas and errors are in
// ops/pointwise.h, ops/activation.h and ops/softmax.h.
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

/// `relu6`: min(max(x, 0), 6).
class ReLU6 final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `hardsigmoid`: relu6(x + 3) / 6.
class Hardsigmoid final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `hardswish`: x relu6(x + 3) / 6.
class Hardswish final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `selu`: 1.0507 elu(x, 1.6733).
class SELU final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `logsigmoid`: log(sigmoid(x)).
class LogSigmoid final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `softsign`: x / (1 + |x|).
class Softsign final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `mish`: x tanh(softplus(x)).
class Mish final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `leaky_relu`: x above 0, negative_slope * x below.
class LeakyReLU final : public Layer {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double negative_slope_;
};

/// `hardtanh`: x between the bounds.
class Hardtanh final : public Layer {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1) : min_val_(min_val), max_val_(max_val) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double min_val_, max_val_;
};

/// `softshrink`: x moved towards 0 by lambd.
class Softshrink final : public Layer {
 public:
  explicit Softshrink(double lambd = 0.5) : lambd_(lambd) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double lambd_;
};

/// `elu`: x above 0, alpha (e^x - 1) below.
class ELU final : public Layer {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double alpha_;
};

/// `celu`: x above 0, alpha (e^(x / alpha) - 1) below.
class CELU final : public Layer {
 public:
  explicit CELU(double alpha = 1) : alpha_(alpha) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double alpha_;
};

/// `softplus`: log(1 + e^(beta x)) / beta.
class Softplus final : public Layer {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double beta_, threshold_;
};

/// `prelu`: leaky_relu with learned slopes, one for all or one per channel, [num_parameters], `init` to begin
/// with. Throws ValueError for fewer than one.
class PReLU final : public Layer {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25, const TensorOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
};

/// `softmin` along `dim`.
class Softmin final : public Layer {
 public:
  explicit Softmin(std::int64_t dim) : dim_(dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  std::int64_t dim_;
};

}  // namespace mezzo::nn
