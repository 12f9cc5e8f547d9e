// Shared by the loss families: checks, the forward and gradient of elementwise losses, and the pieces of
// their plain compositions.
#pragma once

#include <array>

#include "mezzo/kernels/reduce/reduce.h"
#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/loss.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduction.h"

namespace mezzo::ops {

struct LossAttrs {
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(LossAttrs, reduction)
};
/// Options of a loss's gradient op: the loss's, and the dtype of the gradient; default: the loss's.
template <class A>
struct WithDType : A {
  std::optional<DType> dtype = {};
  WithDType() = default;
  WithDType(const A& attrs, std::optional<DType> wanted = {}) : A(attrs), dtype(wanted) {}
  static constexpr auto fields() {
    return std::tuple_cat(A::fields(), std::tuple{attr("dtype", &WithDType::dtype)});
  }
};

/// dtype of a loss of x and a floating target. Autocast's f32 does not narrow f64.
template <class A>
[[nodiscard]] DType loss_dtype(std::string_view op, const ForwardArgs<A>& args) {
  require_floating(op, args.in(0));
  require_floating(op, args.in(1));
  const DType common = result_type({&args.in(0), &args.in(1)});
  return args.run_dtype ? promote(common, *args.run_dtype) : common;
}

/// Throws ShapeError unless the target has x's shape.
inline void require_same_shape(std::string_view op, const Tensor& x, const Tensor& target) {
  if (x.shape() == target.shape()) return;
  throw ShapeError(op, "a target of the input's shape " + to_string(x.shape()), to_string(target.shape()),
                   "reshape or expand one of them");
}

/// Throws ShapeError unless grad is what the reduction leaves of losses of `shape`.
inline void require_loss_grad(std::string_view op, const Tensor& grad, Reduction reduction,
                              const Shape& shape) {
  const Shape expected = reduction == Reduction::none ? shape : Shape{};
  if (grad.shape() == expected) return;
  throw ShapeError(op, "a grad of the loss's shape " + to_string(expected), to_string(grad.shape()),
                   "pass the gradient of that loss");
}

/// The factor that the reduction puts on each element's gradient.
[[nodiscard]] inline double reduction_scale(Reduction reduction, const Shape& shape) {
  return reduction == Reduction::mean ? 1.0 / static_cast<double>(layout::numel(shape)) : 1.0;
}

/// `weight`, or 1 where it is undefined.
[[nodiscard]] inline Tensor weight_or_one(const Tensor& weight, const Tensor& like) {
  return weight.defined() ? weight : ones({}, {.device = like.device()});
}

/// f over inputs expanded to `shape`, reduced; no temporary for mean and sum.
template <std::size_t N, class F>
[[nodiscard]] Tensor reduced_loss(std::string_view op, F f, const std::array<const Tensor*, N>& inputs,
                                  const Shape& shape, Reduction reduction, DType result) {
  const Device device = inputs[0]->device();
  std::array<kernels::View, N> views;
  for (std::size_t i = 0; i < N; ++i) {
    require_floating(op, *inputs[i]);
    views[i] = expanded_view(op, *inputs[i], shape);
  }
  const bool reduces = reduction != Reduction::none;
  Tensor out = empty(reduces ? Shape{} : shape,
                     {.dtype = result,
                      .device = device,
                      .memory_format = reduces ? MemoryFormat::contiguous : common_format(shape, inputs)});
  const DType compute = compute_dtype(result);
  if (!reduces)
    kernels::pointwise_real(device, f, view_of(out), views, compute);
  else if (reduction == Reduction::sum)
    kernels::map_reduce(device, f, view_of(out), views, compute, kernels::kKeepSum);
  else
    kernels::map_reduce(device, f, view_of(out), views, compute, kernels::kDivideByCount);
  return out;
}

/// f(grad, inputs...) in one pass, grad and inputs expanded to `shape`. Computes in the type of grad, which
/// is the loss's: inputs that autocast left in 16 bits are widened here.
template <std::size_t N, class F>
[[nodiscard]] Tensor loss_gradient(std::string_view op, F f, const Tensor& grad,
                                   const std::array<const Tensor*, N>& inputs, const Shape& shape,
                                   const WithDType<LossAttrs>& attrs) {
  require_floating(op, grad);
  require_loss_grad(op, grad, attrs.reduction, shape);
  std::array<kernels::View, N + 1> views;
  views[0] = expanded_view(op, grad, shape);
  for (std::size_t i = 0; i < N; ++i) {
    require_floating(op, *inputs[i]);
    views[i + 1] = expanded_view(op, *inputs[i], shape);
  }
  Tensor out = empty(shape, {.dtype = attrs.dtype.value_or(grad.dtype()),
                             .device = grad.device(),
                             .memory_format = common_format(shape, inputs)});
  kernels::pointwise_real(grad.device(), f, view_of(out), views, compute_dtype(grad.dtype()));
  return out;
}

/// dtype for the gradient of input i: the dtype that is wanted behind a cast, written at once; but the loss's
/// dtype where the engine still has to sum over broadcast dims, so that the sum is not of rounded values.
template <class A>
[[nodiscard]] DType gradient_dtype(const VjpArgs<A>& args, std::size_t i, const Shape& shape) {
  return args.in_shape(i) == shape ? args.wanted(i) : args.out_dtype();
}

// --- pieces of compositions

/// The losses of a composition, reduced.
[[nodiscard]] inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

/// The gradient of x through `loss`, a composition that gives the loss, in plain ops.
template <class F>
[[nodiscard]] Tensor composed_loss_gradient(const Tensor& grad, const Tensor& x, F loss) {
  return composed_gradients({x}, std::array<bool, 1>{true}, {grad},
                            [&](const Tensors& own) -> Outputs { return loss(own[0]); })[0];
}

// --- gradient ops. Inputs: grad, then those of the loss, whose x is the first

/// The reference of a loss's gradient op: the gradient of x through the loss's own reference.
template <auto Reference, class A>
[[nodiscard]] Outputs loss_gradient_reference(const ForwardArgs<WithDType<A>>& args) {
  const DType dtype = args.in(0).dtype(), compute = compute_dtype(dtype);
  SmallVector<TensorRef, 8> inputs(args.inputs.begin() + 1, args.inputs.end());
  const auto loss = [&](const Tensor& x) -> Tensor {
    inputs[0] = x;
    return Reference(ForwardArgs<A>{Inputs(inputs), args.attrs});
  };
  const Tensor found = composed_loss_gradient(input_as(args, 0, compute), input_as(args, 1, compute), loss);
  return to(found, args.attrs.dtype.value_or(dtype));
}

/// The calls of a loss's gradient op that follow those of the loss; `shape` gives the shape of one's result.
template <class A, class F>
[[nodiscard]] std::vector<Sample<WithDType<A>>> loss_gradient_samples(const std::vector<Sample<A>>& calls,
                                                                      F shape) {
  std::vector<Sample<WithDType<A>>> list;
  for (const Sample<A>& call : calls) {
    if (call.inputs[0].shape.empty()) continue;  // shows nothing that the others do not
    list.push_back({call.inputs, {call.attrs}});
    list.back().inputs.insert(list.back().inputs.begin(), op_samples::real(shape(call)));
  }
  return list;
}

/// The gradient of x by its op; those of all other inputs, which are seldom asked for, by the composition.
template <const auto& kGradientOp, class A>
[[nodiscard]] Gradients loss_vjp(const VjpArgs<A>& args) {
  Gradients gradients(args.num_inputs());
  Tensors inputs{args.grad(), args.stored_in(0)};
  bool composes = false;
  for (std::size_t i = 1; i < args.num_inputs(); ++i) {
    composes = composes || args.needs(i);
    inputs.push_back(args.stored_in(i));
  }
  if (composes) gradients = decomposed(args);
  if (!args.needs(0)) return gradients;
  const SmallVector<TensorRef, 8> refs(inputs.begin(), inputs.end());
  gradients[0] = bind(kGradientOp, Inputs(refs), WithDType<A>{args.attrs, args.wanted(0)});
  return gradients;
}

}  // namespace mezzo::ops
