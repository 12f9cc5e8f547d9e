// The layers that the templates of the header do not make. Each forward calls the function of its name with
// the layer's options. PReLU alone has a parameter.
#include "mezzo/nn/activation.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/factory.h"

namespace mezzo::nn {

namespace {

Tensor slopes(std::int64_t count, double init, const TensorOptions& options) {
  if (count > 0) return full({count}, init, options);
  throw ValueError("PReLU", "num_parameters of at least 1", std::to_string(count), "1, or one per channel");
}

}  // namespace

std::string detail::option_text(const char* name, double value) {
  return std::string(name) + "=" + Value(value).to_string();
}

PReLU::PReLU(std::int64_t num_parameters, double init, const TensorOptions& options)
    : weight(*this, "weight", slopes(num_parameters, init, options)) {}

RReLU::RReLU(double lower, double upper, Generator* generator)
    : lower_(lower), upper_(upper), generator_(generator) {
  if (lower <= upper) return;
  throw ValueError("RReLU", "lower <= upper", Value(lower).to_string() + " and " + Value(upper).to_string(),
                   "exchange them");
}
Tensor RReLU::forward(const Tensor& x) {
  return rrelu(x, lower_, upper_, is_training(), detail::or_default(generator_));
}
std::string RReLU::extra_repr() const {
  return detail::option_text("lower", lower_) + ", " + detail::option_text("upper", upper_);
}
Tensor Softmax2d::forward(const Tensor& x) {
  if (x.defined() && x.dim() != 3 && x.dim() != 4) {
    throw ShapeError(described(), "an input [N, C, H, W] or [C, H, W]", to_string(x.shape()),
                     "use Softmax for other dims");
  }
  return softmax(x, -3);
}

Tensor GELU::forward(const Tensor& x) { return gelu(x, approximate_); }
Tensor PReLU::forward(const Tensor& x) { return prelu(x, weight); }

std::string GELU::extra_repr() const {
  const auto index = static_cast<std::size_t>(approximate_);
  return "approximate=" + std::string(kEnumNames<GeluApproximation>[index]);
}
std::string PReLU::extra_repr() const { return "num_parameters=" + std::to_string(weight->numel()); }

}  // namespace mezzo::nn
