// Each forward calls the function of its name with the layer's options. PReLU alone has a parameter.
#include "mezzo/nn/activation.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/ops/activation.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/softmax.h"

namespace mezzo::nn {

namespace {

/// "alpha=1.0"
std::string named(const char* name, double value) {
  return std::string(name) + "=" + Value(value).to_string();
}

Tensor slopes(std::int64_t count, double init, const TensorOptions& options) {
  if (count > 0) return full({count}, init, options);
  throw ValueError("PReLU", "num_parameters of at least 1", std::to_string(count), "1, or one per channel");
}

}  // namespace

PReLU::PReLU(std::int64_t num_parameters, double init, const TensorOptions& options)
    : weight(*this, "weight", slopes(num_parameters, init, options)) {}

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate_); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Tanh::forward(const Tensor& x) { return mezzo::tanh(x); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, dim_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, dim_); }
Tensor ReLU6::forward(const Tensor& x) { return relu6(x); }
Tensor Hardsigmoid::forward(const Tensor& x) { return hardsigmoid(x); }
Tensor Hardswish::forward(const Tensor& x) { return hardswish(x); }
Tensor SELU::forward(const Tensor& x) { return selu(x); }
Tensor LogSigmoid::forward(const Tensor& x) { return logsigmoid(x); }
Tensor Softsign::forward(const Tensor& x) { return softsign(x); }
Tensor Mish::forward(const Tensor& x) { return mish(x); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, negative_slope_); }
Tensor Hardtanh::forward(const Tensor& x) { return hardtanh(x, min_val_, max_val_); }
Tensor Softshrink::forward(const Tensor& x) { return softshrink(x, lambd_); }
Tensor ELU::forward(const Tensor& x) { return elu(x, alpha_); }
Tensor CELU::forward(const Tensor& x) { return celu(x, alpha_); }
Tensor Softplus::forward(const Tensor& x) { return softplus(x, beta_, threshold_); }
Tensor PReLU::forward(const Tensor& x) { return prelu(x, weight); }
Tensor Softmin::forward(const Tensor& x) { return softmin(x, dim_); }

std::string GELU::extra_repr() const {
  const auto index = static_cast<std::size_t>(approximate_);
  return "approximate=" + std::string(kEnumNames<GeluApproximation>[index]);
}
std::string Softmax::extra_repr() const { return "dim=" + std::to_string(dim_); }
std::string LogSoftmax::extra_repr() const { return "dim=" + std::to_string(dim_); }
std::string LeakyReLU::extra_repr() const { return named("negative_slope", negative_slope_); }
std::string Hardtanh::extra_repr() const {
  return named("min_val", min_val_) + ", " + named("max_val", max_val_);
}
std::string Softshrink::extra_repr() const { return named("lambd", lambd_); }
std::string ELU::extra_repr() const { return named("alpha", alpha_); }
std::string CELU::extra_repr() const { return named("alpha", alpha_); }
std::string Softplus::extra_repr() const {
  return named("beta", beta_) + ", " + named("threshold", threshold_);
}
std::string PReLU::extra_repr() const { return "num_parameters=" + std::to_string(weight->numel()); }
std::string Softmin::extra_repr() const { return "dim=" + std::to_string(dim_); }

}  // namespace mezzo::nn
