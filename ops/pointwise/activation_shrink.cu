// Activations that cut values off: threshold, hardshrink, softshrink, tanhshrink, and rrelu with its random
// slopes.
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

namespace math = kernels::math;

// --- scalar math. A NaN is neither cut off nor is its gradient.

struct ThresholdFn {
  double threshold, value;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    return x <= T(threshold) ? T(value) : x;
  }
};
struct ThresholdBackwardFn {
  double threshold;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    return x <= T(threshold) ? T(0) : grad;
  }
};
struct HardshrinkFn {
  double lambd;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const bool inside = (x >= T(-lambd)) & (x <= T(lambd));
    return inside ? T(0) : x;
  }
};
/// x moved towards 0 by lambd, and no further.
struct SoftshrinkFn {
  double lambd;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x) const {
    const T inside = x == x ? T(0) : x;  // NaN stays
    const T lower = math::detail::select(x < T(-lambd), x + T(lambd), inside);
    return math::detail::select(x > T(lambd), x - T(lambd), lower);
  }
};
/// Of both.
struct ShrinkBackwardFn {
  double lambd;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const bool inside = (x >= T(-lambd)) & (x <= T(lambd));
    return inside ? T(0) : grad;
  }
};
MEZZO_FUNCTOR(TanhshrinkFn, T, (T x), x - math::tanh(x));
struct TanhshrinkBackwardFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T grad, T x) const {
    const T t = math::tanh(x);
    return grad * (t * t);
  }
};

// --- descriptors

struct ThresholdAttrs {
  double threshold = 0, value = 0;
  MEZZO_FIELDS(ThresholdAttrs, threshold, value)
};
struct Threshold : PiecewiseLinear {
  using Attrs = ThresholdAttrs;
  static constexpr std::string_view name = "threshold", backward_name = "threshold_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5}, 0.2, 2)}, {0.1, 20}}, {{op_samples::real({4}, -2, -0.1)}, {0.1, -1}}};
  }
  static ThresholdFn function(const Attrs& attrs) { return {attrs.threshold, attrs.value}; }
  static ThresholdBackwardFn backward(const Attrs& attrs) { return {attrs.threshold}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    return where(le(x, attrs.threshold), 0, grad);
  }
};
const RegisteredActivation<Threshold> threshold_registered;

struct ShrinkAttrs {
  double lambd = 0.5;
  MEZZO_FIELDS(ShrinkAttrs, lambd)
};
/// What hardshrink and softshrink have in common.
struct Shrink : PiecewiseLinear {
  using Attrs = ShrinkAttrs;
  static ShrinkBackwardFn backward(const Attrs& attrs) { return {attrs.lambd}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& attrs) {
    return where(logical_and(ge(x, -attrs.lambd), le(x, attrs.lambd)), 0, grad);
  }
};
struct Hardshrink : Shrink {
  static constexpr std::string_view name = "hardshrink", backward_name = "hardshrink_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5}, 0.6, 2)}}, {{op_samples::real({4}, -0.4, 0.4)}}};
  }
  static HardshrinkFn function(const Attrs& attrs) { return {attrs.lambd}; }
};
const RegisteredActivation<Hardshrink> hardshrink_registered;

struct Softshrink : Shrink {
  static constexpr std::string_view name = "softshrink", backward_name = "softshrink_backward";
  static std::vector<Sample<Attrs>> samples() {
    return {{{op_samples::real({3, 5}, 0.6, 2)}},
            {{op_samples::real({4}, -2, -0.6)}},
            {{op_samples::smooth({3, 5}, 0.9)}, {.lambd = 0.9}},
            {{op_samples::smooth({4})}, {.lambd = 0}}};
  }
  static SoftshrinkFn function(const Attrs& attrs) {
    if (!(attrs.lambd >= 0))
      throw ValueError(name, "lambd >= 0", number_text(attrs.lambd), "pass its magnitude");
    return {attrs.lambd};
  }
};
const RegisteredActivation<Softshrink> softshrink_registered;

struct Tanhshrink : PlainActivation<Curved, TanhshrinkFn, TanhshrinkBackwardFn> {
  static constexpr std::string_view name = "tanhshrink", backward_name = "tanhshrink_backward";
  static std::vector<Sample<Attrs>> samples() { return {{{op_samples::real({3, 5}, 0.5, 2)}}}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return mul(grad, square(tanh(x)));
  }
};
const RegisteredActivation<Tanhshrink> tanhshrink_registered;

}  // namespace

Tensor threshold(const Tensor& x, double threshold, double value) {
  return bind(kActivationOp<Threshold>, {x}, {threshold, value});
}
Tensor hardshrink(const Tensor& x, double lambd) { return bind(kActivationOp<Hardshrink>, {x}, {lambd}); }
Tensor softshrink(const Tensor& x, double lambd) { return bind(kActivationOp<Softshrink>, {x}, {lambd}); }
Tensor tanhshrink(const Tensor& x) { return bind(kActivationOp<Tanhshrink>, {x}); }

Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Generator& generator) {
  require_floating("rrelu", x);
  if (!(lower <= upper)) {
    throw ValueError("rrelu", "lower <= upper", number_text(lower) + " and " + number_text(upper),
                     "exchange them");
  }
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const Tensor slopes =
      uniform(lower, upper, x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
  return mul(x, where(le(x, 0), slopes, 1));
}

}  // namespace mezzo
