// Descriptors of softmax, log_softmax, their backward ops, and softmin.
#include "mezzo/ops/softmax.h"

#include "mezzo/kernels/softmax/softmax.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::SoftmaxKind;

struct SoftmaxAttrs {
  std::int64_t dim = -1;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(SoftmaxAttrs, dim, dtype)
};
using Args = ForwardArgs<SoftmaxAttrs>;

constexpr std::string_view name_of(SoftmaxKind kind) {
  return kind == SoftmaxKind::softmax ? "softmax" : "log_softmax";
}
constexpr std::string_view backward_name_of(SoftmaxKind kind) {
  return kind == SoftmaxKind::softmax ? "softmax_backward" : "log_softmax_backward";
}

/// x, as `dtype` where it is no floating tensor and one is asked for.
Tensor real_input(std::string_view op, const Args& args) {
  const Tensor& x = args.in(0);
  if (args.attrs.dtype && !is_floating(x.dtype())) return to(x, compute_dtype(*args.attrs.dtype));
  require_floating(op, x);
  return x;
}

/// The dtype of the result; `otherwise` where neither the caller nor autocast asks for one.
DType result_of(std::string_view op, const Args& args, DType otherwise) {
  const DType result = args.attrs.dtype ? *args.attrs.dtype : args.run_dtype.value_or(otherwise);
  if (!is_floating(result)) throw DTypeError(op, "a floating dtype", to_string(result), "use f32 or another");
  return result;
}

std::size_t dim_of(std::string_view op, const Args& args) {
  return static_cast<std::size_t>(layout::wrap_dim(op, args.attrs.dim, args.in(0).shape().size()));
}

template <SoftmaxKind kKind>
Outputs forward(const Args& args) {
  constexpr std::string_view kName = name_of(kKind);
  const Tensor x = real_input(kName, args);
  const DType result = result_of(kName, args, x.dtype());
  const std::size_t dim = dim_of(kName, args);
  Tensor out = empty_like(x, result);
  kernels::softmax(x.device(), kKind, view_of(out), view_of(x), dim, compute_dtype(result));
  return out;
}

template <SoftmaxKind kKind>
Outputs reference(const Args& args) {
  constexpr std::string_view kName = name_of(kKind);
  const DType result = result_of(kName, args, args.in(0).dtype());
  const Tensor x = to(args.in(0), compute_dtype(result));
  if (x.numel() == 0) return to(x, result);
  const Dims dim = x.dim() == 0 ? Dims{} : Dims{args.attrs.dim};
  const Tensor shifted = x - amax(x, dim, true).detach();
  const Tensor exps = exp(shifted);
  const Tensor total = sum(exps, dim, true);
  return to(kKind == SoftmaxKind::softmax ? exps / total : shifted - log(total), result);
}

/// dtype in which softmax_backward computes.
DType backward_compute(const Args& args) {
  return compute_dtype(promote(args.in(0).dtype(), args.in(1).dtype()));
}

template <SoftmaxKind kKind>
Outputs backward_forward(const Args& args) {
  constexpr std::string_view kName = backward_name_of(kKind);
  const Tensor& grad = args.in(0);
  const Tensor& output = args.in(1);
  require_floating(kName, grad);
  require_floating(kName, output);
  if (grad.shape() != output.shape()) {
    throw ShapeError(kName, "grad and output of one shape",
                     to_string(grad.shape()) + " and " + to_string(output.shape()),
                     "pass the gradient of that output");
  }
  const std::size_t dim = dim_of(kName, args);
  const DType result = result_of(kName, args, promote(grad.dtype(), output.dtype()));
  Tensor out = empty_like(output, result);
  kernels::softmax_backward(grad.device(), kKind, view_of(out), view_of(grad), view_of(output), dim,
                            backward_compute(args));
  return out;
}

template <SoftmaxKind kKind>
Outputs backward_reference(const Args& args) {
  const DType compute = backward_compute(args);
  const DType result =
      result_of(backward_name_of(kKind), args, promote(args.in(0).dtype(), args.in(1).dtype()));
  const Tensor grad = to(args.in(0), compute);
  const Tensor output = to(args.in(1), compute);
  const Dims dim = grad.dim() == 0 ? Dims{} : Dims{args.attrs.dim};
  if constexpr (kKind == SoftmaxKind::softmax)
    return to(output * (grad - sum(grad * output, dim, true)), result);
  else
    return to(grad - exp(output) * sum(grad, dim, true), result);
}

template <SoftmaxKind kKind>
Gradients vjp(const VjpArgs<SoftmaxAttrs>& args) {
  constexpr auto kBackward = kKind == SoftmaxKind::softmax ? softmax_backward : log_softmax_backward;
  // In the dtype behind a cast at once: one rounding and one pass less.
  return {kBackward(args.grad(), args.out(), args.attrs.dim, args.wanted(0))};
}

/// softmax(-x).
Outputs softmin_forward(const Args& args) {
  const Tensor x = real_input("softmin", args);
  const DType result = result_of("softmin", args, x.dtype());
  static_cast<void>(layout::wrap_dim("softmin", args.attrs.dim, x.shape().size()));
  return softmax(neg(x), args.attrs.dim, result);
}
Gradients softmin_vjp(const VjpArgs<SoftmaxAttrs>& args) {
  return {neg(softmax_backward(args.grad(), args.out(), args.attrs.dim, args.wanted(0)))};
}

std::vector<Sample<SoftmaxAttrs>> samples_of_forward() {
  return {{{op_samples::real({3, 5})}, {.dim = -1}},
          {{op_samples::real({5, 3})}, {.dim = 0}},
          {{op_samples::real({2, 19, 3})}, {.dim = -2}},
          {{op_samples::real({7})}, {.dim = 0}},
          {{op_samples::real({})}, {.dim = -1}},
          {{op_samples::real({2, 3}, -30, 30)}, {.dim = 1, .dtype = DType::f64}}};
}
std::vector<Sample<SoftmaxAttrs>> samples_of_backward() {
  return {{{op_samples::real({3, 5}), op_samples::real({3, 5})}, {.dim = -1}},
          {{op_samples::real({2, 19, 3}), op_samples::real({2, 19, 3})}, {.dim = 1}}};
}

template <SoftmaxKind kKind>
constexpr Op<SoftmaxAttrs> kForwardOp = fused_op<SoftmaxAttrs>(name_of(kKind), Category::fp32,
                                                               samples_of_forward, forward<kKind>,
                                                               reference<kKind>, vjp<kKind>, save_outputs(0));
template <SoftmaxKind kKind>
constexpr Op<SoftmaxAttrs> kBackwardOp = gradient_op<SoftmaxAttrs>(backward_name_of(kKind),
                                                                   samples_of_backward,
                                                                   backward_forward<kKind>,
                                                                   backward_reference<kKind>);

constexpr Op<SoftmaxAttrs> softmin_op = plain_op<SoftmaxAttrs>("softmin", Category::fp32, samples_of_forward,
                                                               softmin_forward, softmin_vjp, save_outputs(0));

const Registered softmax_registered{softmin_op, kForwardOp<SoftmaxKind::softmax>,
                                    kBackwardOp<SoftmaxKind::softmax>, kForwardOp<SoftmaxKind::log_softmax>,
                                    kBackwardOp<SoftmaxKind::log_softmax>};

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  return bind(kForwardOp<SoftmaxKind::softmax>, {x}, SoftmaxAttrs{dim, dtype});
}

Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  return bind(kForwardOp<SoftmaxKind::log_softmax>, {x}, SoftmaxAttrs{dim, dtype});
}

Tensor softmin(const Tensor& x, std::int64_t dim, std::optional<DType> dtype) {
  return bind(softmin_op, {x}, SoftmaxAttrs{dim, dtype});
}

Tensor softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                        std::optional<DType> dtype) {
  return bind(kBackwardOp<SoftmaxKind::softmax>, {grad, output}, SoftmaxAttrs{dim, dtype});
}

Tensor log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                            std::optional<DType> dtype) {
  return bind(kBackwardOp<SoftmaxKind::log_softmax>, {grad, output}, SoftmaxAttrs{dim, dtype});
}

}  // namespace mezzo
