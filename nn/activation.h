// Activation functions as layers, for use in Sequential. The functions, their formulas and errors are in
// ops/pointwise.h, ops/activation.h and ops/softmax.h.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/activation.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/selection.h"
#include "mezzo/ops/softmax.h"

namespace mezzo::nn {

namespace detail {
/// "alpha=1.0"
[[nodiscard]] std::string option_text(const char* name, double value);
}  // namespace detail

/// A layer that calls `F`.
template <Tensor (*F)(const Tensor&)>
class LayerOf : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override { return F(x); }
};

/// A layer that calls `F` with a number, which is printed under its name.
template <Tensor (*F)(const Tensor&, double)>
class LayerOfNumber : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override { return F(x, number_); }
  [[nodiscard]] std::string extra_repr() const override { return detail::option_text(name_, number_); }

 protected:
  LayerOfNumber(const char* name, double number) : name_(name), number_(number) {}

 private:
  const char* name_;
  double number_;
};

/// A layer that calls `F` with two numbers, which are printed under their names.
template <Tensor (*F)(const Tensor&, double, double)>
class LayerOfTwoNumbers : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override { return F(x, first_, second_); }
  [[nodiscard]] std::string extra_repr() const override {
    return detail::option_text(first_name_, first_) + ", " + detail::option_text(second_name_, second_);
  }

 protected:
  LayerOfTwoNumbers(const char* first_name, double first, const char* second_name, double second)
      : first_name_(first_name), second_name_(second_name), first_(first), second_(second) {}

 private:
  const char *first_name_, *second_name_;
  double first_, second_;
};

/// A layer that calls `F` with a dim.
template <Tensor (*F)(const Tensor&, std::int64_t, std::optional<DType>)>
class LayerAlongDim : public Layer {
 public:
  explicit LayerAlongDim(std::int64_t dim) : dim_(dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override { return F(x, dim_, {}); }
  [[nodiscard]] std::string extra_repr() const override { return "dim=" + std::to_string(dim_); }

 private:
  std::int64_t dim_;
};

/// `relu`: max(x, 0).
class ReLU final : public LayerOf<relu> {};

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
class Sigmoid final : public LayerOf<sigmoid> {};

/// `tanh`.
class Tanh final : public LayerOf<mezzo::tanh> {};

/// `silu`: x sigmoid(x).
class SiLU final : public LayerOf<silu> {};

/// `softmax` along `dim`.
class Softmax final : public LayerAlongDim<softmax> {
 public:
  using LayerAlongDim::LayerAlongDim;
};

/// `log_softmax` along `dim`.
class LogSoftmax final : public LayerAlongDim<log_softmax> {
 public:
  using LayerAlongDim::LayerAlongDim;
};

/// `relu6`: min(max(x, 0), 6).
class ReLU6 final : public LayerOf<relu6> {};

/// `hardsigmoid`: relu6(x + 3) / 6.
class Hardsigmoid final : public LayerOf<hardsigmoid> {};

/// `hardswish`: x relu6(x + 3) / 6.
class Hardswish final : public LayerOf<hardswish> {};

/// `selu`: 1.0507 elu(x, 1.6733).
class SELU final : public LayerOf<selu> {};

/// `logsigmoid`: log(sigmoid(x)).
class LogSigmoid final : public LayerOf<logsigmoid> {};

/// `softsign`: x / (1 + |x|).
class Softsign final : public LayerOf<softsign> {};

/// `mish`: x tanh(softplus(x)).
class Mish final : public LayerOf<mish> {};

/// `leaky_relu`: x above 0, negative_slope * x below.
class LeakyReLU final : public LayerOfNumber<leaky_relu> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : LayerOfNumber("negative_slope", negative_slope) {}
};

/// `hardtanh`: x between the bounds.
class Hardtanh final : public LayerOfTwoNumbers<hardtanh> {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1)
      : LayerOfTwoNumbers("min_val", min_val, "max_val", max_val) {}
};

/// `softshrink`: x moved towards 0 by lambd.
class Softshrink final : public LayerOfNumber<softshrink> {
 public:
  explicit Softshrink(double lambd = 0.5) : LayerOfNumber("lambd", lambd) {}
};

/// `hardshrink`: x, and 0 from -lambd to lambd.
class Hardshrink final : public LayerOfNumber<hardshrink> {
 public:
  explicit Hardshrink(double lambd = 0.5) : LayerOfNumber("lambd", lambd) {}
};

/// `tanhshrink`: x - tanh(x).
class Tanhshrink final : public LayerOf<tanhshrink> {};

/// `threshold`: x above the threshold, `value` elsewhere.
class Threshold final : public LayerOfTwoNumbers<threshold> {
 public:
  Threshold(double threshold, double value) : LayerOfTwoNumbers("threshold", threshold, "value", value) {}
};

/// `rrelu`: leaky_relu, in training with random slopes. Throws: ValueError unless lower <= upper.
class RReLU final : public Layer {
 public:
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, Generator* generator = nullptr);
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

 private:
  double lower_, upper_;
  Generator* generator_;
};

/// `elu`: x above 0, alpha (e^x - 1) below.
class ELU final : public LayerOfNumber<elu> {
 public:
  explicit ELU(double alpha = 1) : LayerOfNumber("alpha", alpha) {}
};

/// `celu`: x above 0, alpha (e^(x / alpha) - 1) below.
class CELU final : public LayerOfNumber<celu> {
 public:
  explicit CELU(double alpha = 1) : LayerOfNumber("alpha", alpha) {}
};

/// `softplus`: log(1 + e^(beta x)) / beta.
class Softplus final : public LayerOfTwoNumbers<softplus> {
 public:
  explicit Softplus(double beta = 1, double threshold = 20)
      : LayerOfTwoNumbers("beta", beta, "threshold", threshold) {}
};

/// `prelu`: leaky_relu with learned slopes, one for all or one per channel, [num_parameters], `init` to begin
/// with. Throws: ValueError for fewer than one.
class PReLU final : public Layer {
 public:
  using Options = TensorOptions;
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25, const TensorOptions& options = {});
  [[nodiscard]] Tensor forward(const Tensor& x) override;
  [[nodiscard]] std::string extra_repr() const override;

  Param weight;
};

/// `softmax` over the channels of x [N, C, H, W] or [C, H, W]; forward throws ShapeError for other dims.
class Softmax2d final : public Layer {
 public:
  [[nodiscard]] Tensor forward(const Tensor& x) override;
};

/// `glu`: the first half of a dim times the sigmoid of the second.
class GLU final : public Layer {
 public:
  explicit GLU(std::int64_t dim = -1) : dim_(dim) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override { return glu(x, dim_); }
  [[nodiscard]] std::string extra_repr() const override { return "dim=" + std::to_string(dim_); }

 private:
  std::int64_t dim_;
};

/// `softmin` along `dim`.
class Softmin final : public LayerAlongDim<softmin> {
 public:
  using LayerAlongDim::LayerAlongDim;
};

}  // namespace mezzo::nn
