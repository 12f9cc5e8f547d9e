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
struct SoftplusBackwardFn {
  double beta, threshold;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T scaled = x * T(beta);
    return grad * math::detail::select(scaled > T(threshold), T(1), math::sigmoid(scaled));
  }
};
MEZZO_FUNCTOR(LogsigmoidFn, T, (T x), -log_one_plus_exp(-x));
struct LogsigmoidBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    return grad * math::sigmoid(-x);
  }
};
MEZZO_FUNCTOR(SoftsignFn, T, (T x), x / (T(1) + AbsFn{}(x)));
struct SoftsignBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T below = T(1) + AbsFn{}(x);
    return grad / (below * below);
  }
};
/// tanh(log(1 + e)) is n / (n + 2) with n = e (e + 2), and nothing in it cancels. At x = 20 it is 1 to the
/// last place of double, so that x goes no further.
template <class T>
struct MishParts {
  T bounded, e, n;
  MEZZO_HD MEZZO_ALWAYS_INLINE explicit MishParts(T x)
      : bounded(MinimumFn{}(x, T(40))), e(math::exp(bounded)), n(e * (e + T(2))) {}
};
/// x tanh(log(1 + e^x)).
struct MishFn {
  static constexpr bool kFuses16Bit = true;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const MishParts<T> parts(x);
    return x * (parts.n / (parts.n + T(2)));
  }
};
struct MishBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const MishParts<T> parts(x);
    const T below = parts.n + T(2);
    // e vanishes before x is far enough out for 4 x to be infinite: x meets it first.
    const T slope = parts.e * (T(1) + parts.e) / below * parts.bounded * (T(4) / below);
    return grad * (parts.n / below + slope);
  }
};

/// What most of these ops share.
template <class F, class B>
struct Smooth : PlainActivation<Curved, F, B> {
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
  static constexpr std::string_view name = "softplus", backward_name = "softplus_backward";
  static constexpr Category category = Category::fp32;
  static constexpr bool is_piecewise_linear = false;
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5})}},
            {{op_samples::real({4}, 2.1, 4)}, {2, 4}},
            {{op_samples::real({4}, -4, 1.9)}, {.beta = 2, .threshold = 4}}};
  }
  static SoftplusFn function(const Attrs& attrs) {
    if (attrs.beta == 0) throw ValueError(name, "a beta other than 0", "0", "pass 1 for log(1 + e^x)");
    return {attrs.beta, attrs.threshold};
  }
  static SoftplusBackwardFn backward(const Attrs& attrs) { return {attrs.beta, attrs.threshold}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    const Tensor scaled = mul(x, attrs.beta);
    return where(gt(scaled, attrs.threshold), grad, mul(grad, sigmoid(scaled)));
  }
};
const RegisteredActivation<Softplus> softplus_registered;

struct Logsigmoid : Smooth<LogsigmoidFn, LogsigmoidBackwardFn> {
  static constexpr std::string_view name = "logsigmoid", backward_name = "logsigmoid_backward";
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return mul(grad, sigmoid(neg(x)));
  }
};
const RegisteredActivation<Logsigmoid> logsigmoid_registered;

struct Softsign : Smooth<SoftsignFn, SoftsignBackwardFn> {
  static constexpr std::string_view name = "softsign", backward_name = "softsign_backward";
  // The second derivative jumps at 0.
  static std::vector<Sample<NoAttrs>> samples() {
    return {{{op_samples::smooth({3, 5})}}, {{op_samples::real({4}, 3, 9)}}};
  }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return div(grad, square(add(abs(x), 1)));
  }
};
const RegisteredActivation<Softsign> softsign_registered;

struct Mish : Smooth<MishFn, MishBackwardFn> {
  static constexpr std::string_view name = "mish", backward_name = "mish_backward";
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    const Tensor t = tanh(softplus(x));
    return mul(grad, add(t, mul(mul(x, sigmoid(x)), sub(1, square(t)))));
  }
};
const RegisteredActivation<Mish> mish_registered;

}  // namespace

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return bind(kActivationOp<Softplus>, {x}, {beta, threshold});
}
Tensor logsigmoid(const Tensor& x) { return bind(kActivationOp<Logsigmoid>, {x}); }
Tensor softsign(const Tensor& x) { return bind(kActivationOp<Softsign>, {x}); }
Tensor mish(const Tensor& x) { return bind(kActivationOp<Mish>, {x}); }

}  // namespace mezzo
