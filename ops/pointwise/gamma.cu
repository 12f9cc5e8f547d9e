// The logarithm of the gamma function and its derivatives.
#include "mezzo/kernels/math/gamma_math.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/common.h"

namespace mezzo {

namespace {

using namespace ops;

namespace math = kernels::math;

struct LgammaFn : MathFn<math::lgamma, math::lgamma> {};
struct DigammaFn : MathFn<math::digamma, math::digamma> {};

using Vjps = VjpArgs<NoAttrs>;

std::vector<Sample<NoAttrs>> gamma_samples() {
  return {{{op_samples::real({3, 5}, 0.3, 12)}}, {{op_samples::real({4}, -1.8, -1.2)}}};
}

Gradients lgamma_vjp(const Vjps& args) { return {mul(args.grad(), digamma(widened(args.in(0))))}; }
constexpr Op<NoAttrs> lgamma_op = elementwise_op("lgamma", Category::passthrough, gamma_samples,
                                                 real_unary<LgammaFn>, lgamma_vjp, save_inputs(0));

Gradients digamma_vjp(const Vjps& args) { return {mul(args.grad(), polygamma(1, widened(args.in(0))))}; }
constexpr Op<NoAttrs> digamma_op = elementwise_op("digamma", Category::passthrough, gamma_samples,
                                                  real_unary<DigammaFn>, digamma_vjp, save_inputs(0));

struct PolygammaAttrs {
  std::int64_t n = 1;
  MEZZO_FIELDS(PolygammaAttrs, n)
};
/// (-1)^(n+1) n! zeta(n + 1, x).
struct PolygammaFn {
  explicit PolygammaFn(const PolygammaAttrs& attrs)
      : order(static_cast<double>(attrs.n) + 1),
        factor(std::copysign(std::tgamma(order), attrs.n % 2 == 0 ? -1.0 : 1.0)) {}
  double order, factor;
  MEZZO_HD MEZZO_ALWAYS_INLINE double operator()(double x) const {
    return factor * math::hurwitz_zeta(order, x);
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE float operator()(float x) const {
    return static_cast<float>((*this)(static_cast<double>(x)));
  }
};
Outputs polygamma_forward(const ForwardArgs<PolygammaAttrs>& args) {
  const std::int64_t n = args.attrs.n;
  if (n < 0) throw ValueError("polygamma", "n of at least 0", std::to_string(n), "0 is digamma");
  return n == 0 ? Outputs(digamma(args.in(0))) : real_unary<PolygammaFn>(args);
}
Gradients polygamma_vjp(const VjpArgs<PolygammaAttrs>& args) {
  const std::int64_t next = std::min(args.attrs.n, INT64_MAX - 1) + 1;
  return {mul(args.grad(), polygamma(next, widened(args.in(0))))};
}
std::vector<Sample<PolygammaAttrs>> polygamma_samples() {
  return {{{op_samples::real({3, 5}, 0.7, 4)}, {1}},
          {{op_samples::real({4}, -1.8, -1.2)}, {2}},
          {{op_samples::real({}, 0.7, 4)}, {0}}};
}
constexpr Op<PolygammaAttrs> polygamma_op = elementwise_op<PolygammaAttrs>(
    "polygamma", Category::passthrough, polygamma_samples, polygamma_forward, polygamma_vjp, save_inputs(0));

const Registered gamma_registered{lgamma_op, digamma_op, polygamma_op};

}  // namespace

Tensor lgamma(const Tensor& x) { return bind(lgamma_op, {x}); }
Tensor digamma(const Tensor& x) { return bind(digamma_op, {x}); }
Tensor polygamma(std::int64_t n, const Tensor& x) { return bind(polygamma_op, {x}, {n}); }

}  // namespace mezzo
