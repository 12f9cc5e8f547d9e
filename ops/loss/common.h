// Shared by the loss families: checks, options, and the pieces of compositions.
#pragma once

#include "mezzo/ops/detail/composed.h"
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

/// The losses of a composition, reduced.
[[nodiscard]] inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

/// The loss of x and a target that broadcast: losses(x, target), a composition in their compute type,
/// reduced, multiplied by the factor, and rounded once.
template <class A, class F>
[[nodiscard]] Tensor elementwise_loss(std::string_view op, const ForwardArgs<A>& args, Reduction reduction,
                                      const F& losses, double factor = 1) {
  const DType result = loss_dtype(op, args), compute = compute_dtype(result);
  static_cast<void>(layout::broadcast(op, args.in(0).shape(), args.in(1).shape()));
  const Tensor loss = reduced(losses(input_as(args, 0, compute), input_as(args, 1, compute)), reduction);
  return to(factor == 1 ? loss : loss * factor, result);
}

/// The gradient of x by its op, whose inputs are grad and the loss's; those of all other inputs, which are
/// seldom asked for, by the composition.
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
