// Linear's checks of sizes and the uniform values it begins with; forward calls the op linear.
#include "mezzo/nn/linear.h"

#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/matmul.h"

namespace mezzo::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options)
    : weight(*this, "weight",
             detail::unfilled(true,
                              {detail::at_least_one("Linear", "out_features", out_features),
                               detail::at_least_one("Linear", "in_features", in_features)},
                              options)),
      bias(*this, "bias", detail::unfilled(options.bias, {out_features}, options)),
      in_features_(in_features),
      out_features_(out_features) {
  reset_parameters(detail::or_default(options.generator));
}

Linear::Linear(const Linear& original, ShareTensors /*tag*/)
    : weight(*this, "weight", original.weight),
      bias(*this, "bias", original.bias),
      in_features_(original.in_features_),
      out_features_(original.out_features_) {}

void Linear::reset_parameters(Generator& generator) {
  detail::fill_uniform(weight, bias, in_features_, generator);
}

Tensor Linear::forward(const Tensor& x) {
  detail::require_last(*this, x, in_features_, "in_features");
  return linear(x, computed_weight(), bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features_) + ", out_features=" + std::to_string(out_features_) +
         ", bias=" + detail::bool_text(bias.defined());
}

}  // namespace mezzo::nn
