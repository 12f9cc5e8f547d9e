// Smooth activations beside those of activation.cpp.
#include "mezzo/kernels/pointwise/cpu_16bit.h"
#include "mezzo/kernels/pointwise/smooth_activation_math.h"
#include "mezzo/ops/activation.h"
#include "mezzo/ops/pointwise/activation_common.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

/// What most have in common.
struct Smooth {
  using Attrs = NoAttrs;
  static constexpr Category category = Category::passthrough;
  static constexpr bool is_piecewise_linear = false;
  static std::vector<Sample<NoAttrs>> samples() {
    return {{{samples::real({3, 5})}}, {{samples::real({4}, -9, 9)}}};
  }
};

struct SoftplusAttrs {
  double beta = 1, threshold = 20;
  static constexpr auto fields() {
    return std::tuple{attr("beta", &SoftplusAttrs::beta), attr("threshold", &SoftplusAttrs::threshold)};
  }
};
struct Softplus {
  using Attrs = SoftplusAttrs;
  static constexpr std::string_view name = "softplus", backward_name = "softplus_backward";
  static constexpr Category category = Category::fp32;
  static constexpr bool is_piecewise_linear = false;
  static std::vector<Sample<Attrs>> samples() {
    return {{{samples::real({3, 5})}},
            {{samples::real({4}, 2.1, 4)}, {2, 4}},
            {{samples::real({4}, -4, 1.9)}, {.beta = 2, .threshold = 4}}};
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

struct Logsigmoid : Smooth {
  static constexpr std::string_view name = "logsigmoid", backward_name = "logsigmoid_backward";
  static LogsigmoidFn function(const Attrs& /*attrs*/) { return {}; }
  static LogsigmoidBackwardFn backward(const Attrs& /*attrs*/) { return {}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return mul(grad, sigmoid(neg(x)));
  }
};
const RegisteredActivation<Logsigmoid> logsigmoid_registered;

struct Softsign : Smooth {
  static constexpr std::string_view name = "softsign", backward_name = "softsign_backward";
  // The second derivative jumps at 0.
  static std::vector<Sample<NoAttrs>> samples() {
    return {{{samples::smooth({3, 5})}}, {{samples::real({4}, 3, 9)}}};
  }
  static SoftsignFn function(const Attrs& /*attrs*/) { return {}; }
  static SoftsignBackwardFn backward(const Attrs& /*attrs*/) { return {}; }
  static Tensor gradient(const Tensor& grad, const Tensor& x, const Attrs& /*attrs*/) {
    return div(grad, square(add(abs(x), 1)));
  }
};
const RegisteredActivation<Softsign> softsign_registered;

struct Mish : Smooth {
  static constexpr std::string_view name = "mish", backward_name = "mish_backward";
  static MishFn function(const Attrs& /*attrs*/) { return {}; }
  static MishBackwardFn backward(const Attrs& /*attrs*/) { return {}; }
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
