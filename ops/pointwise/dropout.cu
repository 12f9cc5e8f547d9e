// dropout: the op multiplies by a mask, which is drawn before it, so that a call of the op by name is
// deterministic. alpha_dropout is a composition.
#include <algorithm>
#include <cmath>

#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;

struct DropoutAttrs {
  double p = 0.5;
  MEZZO_FIELDS(DropoutAttrs, p)
};

void check_probability(double p, std::string_view op = "dropout") {
  if (p >= 0 && p <= 1) return;
  throw ValueError(op, "a probability p in [0, 1]", number_text(p), "p is the part that is zeroed");
}

/// x * mask * scale.
struct DropoutFn {
  double scale;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T mask) const {
    return x * (mask * static_cast<T>(scale));
  }
};

Outputs dropout_forward(const ForwardArgs<DropoutAttrs>& args) {
  const Tensor &x = args.in(0), &mask = args.in(1);
  const double p = args.attrs.p;
  check_probability(p);
  require_floating("dropout", x);
  if (mask.dtype() != DType::boolean) {
    throw DTypeError("dropout", "a bool mask", to_string(mask.dtype()), "convert it with to(DType::boolean)");
  }
  return map<2>("dropout", DropoutFn{p < 1 ? 1 / (1 - p) : 0}, {&x, &mask}, x.dtype(), x.dtype());
}
Gradients dropout_vjp(const VjpArgs<DropoutAttrs>& args) {
  return {dropout(args.grad(), args.in(1), args.attrs.p), Tensor()};
}
std::vector<Sample<DropoutAttrs>> dropout_samples() {
  return {{{op_samples::real({3, 5}), op_samples::mask({3, 5})}, {0.5}},
          {{op_samples::real({4}), op_samples::mask({4})}, {0.1}},
          {{op_samples::real({4}), op_samples::mask({4})}, {1}}};
}
constexpr Op<DropoutAttrs> dropout_op = elementwise_op<DropoutAttrs>(
    "dropout", Category::passthrough, dropout_samples, dropout_forward, dropout_vjp, save_inputs(1));
const Registered dropout_registered{dropout_op};

/// One mask element for each of `noise`'s shape.
Tensor alpha_dropped(std::string_view op, const Tensor& x, double p, const Shape& noise,
                     Generator& generator) {
  require_floating(op, x);
  if (p == 1) return mul(x, 0);
  constexpr double kLimit = 1.7580993408473766;  // selu(x) for x to -infinity is its negative
  const double a = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
  const Tensor mask = random_mask(1 - p, noise, x.device(), generator);
  return where(mask, add(mul(x, a), kLimit * a * p), kLimit * a * (p - 1));
}

}  // namespace

Tensor dropout(const Tensor& x, const Tensor& mask, double p) {
  return bind(dropout_op, {x, mask}, DropoutAttrs{p});
}

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  require_defined("dropout", x);
  check_probability(p);
  if (!training || p == 0) return x;
  require_floating("dropout", x);
  return dropout(x, random_mask(1 - p, x.shape(), x.device(), generator), p);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator& generator) {
  require_defined("alpha_dropout", x);
  check_probability(p, "alpha_dropout");
  if (!training || p == 0) return x;
  return alpha_dropped("alpha_dropout", x, p, x.shape(), generator);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator& generator) {
  require_defined("feature_alpha_dropout", x);
  check_probability(p, "feature_alpha_dropout");
  if (x.dim() < 2) {
    throw ShapeError("feature_alpha_dropout", "at least 2 dims, [N, C, ..]", to_string(x.shape()),
                     "use alpha_dropout");
  }
  if (!training || p == 0) return x;
  Shape channels = x.shape();
  std::fill(channels.begin() + 2, channels.end(), 1);
  return alpha_dropped("feature_alpha_dropout", x, p, channels, generator);
}

}  // namespace mezzo
