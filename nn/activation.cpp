#include "mezzo/nn/activation.h"

#include "mezzo/ops/softmax.h"

namespace mezzo::nn {

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate_); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Tanh::forward(const Tensor& x) { return mezzo::tanh(x); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, dim_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, dim_); }

std::string GELU::extra_repr() const {
  const auto index = static_cast<std::size_t>(approximate_);
  return "approximate=" + std::string(kEnumNames<GeluApproximation>[index]);
}
std::string Softmax::extra_repr() const { return "dim=" + std::to_string(dim_); }
std::string LogSoftmax::extra_repr() const { return "dim=" + std::to_string(dim_); }

}  // namespace mezzo::nn
