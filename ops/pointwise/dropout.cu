// dropout: the op multiplies by a mask, which is drawn before it, so that a call of the op by name is
// deterministic.
#include "mezzo/kernels/math/scalar_math.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/random.h"

namespace mezzo {

namespace {

using namespace ops;

struct DropoutAttrs {
  double p = 0.5;
  static constexpr auto fields() { return std::tuple{attr("p", &DropoutAttrs::p)}; }
};

void check_probability(double p) {
  if (p >= 0 && p <= 1) return;
  throw ValueError("dropout", "a probability p in [0, 1]", number_text(p), "p is the part that is zeroed");
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
  return {{{samples::real({3, 5}), samples::mask({3, 5})}, {0.5}},
          {{samples::real({4}), samples::mask({4})}, {0.1}},
          {{samples::real({4}), samples::mask({4})}, {1}}};
}
constexpr Op<DropoutAttrs> dropout_op{
    .info = {.name = "dropout", .category = Category::passthrough, .elementwise = true},
    .samples = dropout_samples,
    .forward = dropout_forward,
    .vjp = dropout_vjp,
    .saves = save_inputs(1),
};
const Registered dropout_registered{dropout_op};

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

}  // namespace mezzo
