// Smooth activations beside those of activation.cu.
#include "mezzo/kernels/math/log_one_plus_exp.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/activation.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

namespace math = kernels::math;

/// log(1 + e^(beta x)) / beta; x where beta x is above the threshold.
struct SoftplusFn {
  double beta, threshold;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T scaled = x * T(beta);
    return math::detail::select(scaled > T(threshold), x, log_one_plus_exp(scaled) * T(1 / beta));
  }
};
MEZZO_FUNCTOR(LogsigmoidFn, T, (T x), -log_one_plus_exp(-x));
MEZZO_FUNCTOR(SoftsignFn, T, (T x), x / (T(1) + AbsFn{}(x)));
/// x tanh(log(1 + e^x)), which is x n / (n + 2) with e = e^x and n = e (e + 2), where nothing cancels. At x =
/// kMishBound it is x to the last place of double, so that e^x goes no further.
constexpr double kMishBound = 40;
struct MishFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T e = math::exp(MinimumFn{}(x, T(kMishBound))), n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
};

/// What most of these ops share.
template <class F>
struct Smooth : PlainActivation<F> {
  static std::vector<Sample<NoAttrs>> samples() {
    return {{{op_samples::real({3, 5})}}, {{op_samples::real({4}, -9, 9)}}};
  }
};

struct SoftplusAttrs {
  double beta = 1, threshold = 20;
  MEZZO_FIELDS(SoftplusAttrs, beta, threshold)
};
struct Softplus {
  using Attrs = SoftplusAttrs;
  static constexpr std::string_view name = "softplus";
  static constexpr Category category = Category::fp32;
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5})}},
            {{op_samples::real({4}, 2.1, 4)}, {2, 4}},
            {{op_samples::real({4}, -4, 1.9)}, {.beta = 2, .threshold = 4}}};
  }
  static SoftplusFn function(const Attrs& attrs) {
    if (attrs.beta == 0) throw ValueError(name, "a beta other than 0", "0", "pass 1 for log(1 + e^x)");
    return {attrs.beta, attrs.threshold};
  }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    const Tensor scaled = mul(x, attrs.beta);
    return where(gt(scaled, attrs.threshold), grad, mul(grad, sigmoid(scaled)));
  }
};
const Registered softplus_registered{kActivationOp<Softplus>};

struct Logsigmoid : Smooth<LogsigmoidFn> {
  static constexpr std::string_view name = "logsigmoid";
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return mul(grad, sigmoid(neg(x)));
  }
};
const Registered logsigmoid_registered{kActivationOp<Logsigmoid>};

struct Softsign : Smooth<SoftsignFn> {
  static constexpr std::string_view name = "softsign";
  // The second derivative jumps at 0.
  static std::vector<Sample<NoAttrs>> samples() {
    return {{{op_samples::smooth({3, 5})}}, {{op_samples::real({4}, 3, 9)}}};
  }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return div(grad, square(add(abs(x), 1)));
  }
};
const Registered softsign_registered{kActivationOp<Softsign>};

struct Mish : Smooth<MishFn> {
  static constexpr std::string_view name = "mish";
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    const Tensor bounded = clamp(x, {}, kMishBound), e = exp(bounded), n = mul(e, add(e, 2));
    const Tensor below = add(n, 2);
    // e vanishes before x is far enough out for 4 x to be infinite: x meets it first.
    const Tensor slope = mul(mul(div(mul(e, add(e, 1)), below), bounded), div(4, below));
    return mul(grad, add(div(n, below), slope));
  }
};
const Registered mish_registered{kActivationOp<Mish>};

}  // namespace

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return bind(kActivationOp<Softplus>, {x}, {beta, threshold});
}
Tensor logsigmoid(const Tensor& x) { return bind(kActivationOp<Logsigmoid>, {x}); }
Tensor softsign(const Tensor& x) { return bind(kActivationOp<Softsign>, {x}); }
Tensor mish(const Tensor& x) { return bind(kActivationOp<Mish>, {x}); }

}  // namespace mezzo
