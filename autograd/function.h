// Ops of a program's own as closures, as torch.autograd.Function has them. What is called often, or is to be
// looked up and tested by name, is better off with a descriptor (docs/adding_an_op.md).
//   Tensor cube(const Tensor& x) {
//     return autograd::function(
//         {x},
//         [](autograd::FunctionContext& context, TensorList in) -> Tensors {
//           context.save_for_backward({in[0]});
//           return {pow(in[0], 3)};
//         },
//         [](const autograd::FunctionContext& context, TensorList grads) -> Tensors {
//           return {grads[0] * square(context.saved_tensors()[0]) * 3.0};
//         })[0];
//   }
#pragma once

#include <span>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// What forward keeps for backward. Source: torch.autograd.function.FunctionCtx.
class FunctionContext {
 public:
  /// In forward: tensors that backward reads. Those that are inputs or results of the call keep their
  /// history, so that gradients which read them can be differentiated again; others have none. Kept until the
  /// graph is freed. Each may be written in place no more before backward, which throws AutogradError then.
  void save_for_backward(TensorList tensors) { saved_ = Tensors(tensors.begin(), tensors.end()); }
  /// In backward: these tensors, in their order.
  [[nodiscard]] const Tensors& saved_tensors() const noexcept { return saved_; }
  /// Whether anybody wants the gradient of input i; backward may leave others undefined.
  [[nodiscard]] bool needs_input_grad(std::size_t i) const { return i < needs_.size() && needs_[i]; }

 private:
  friend class FunctionNode;
  friend Tensors function(
      TensorList inputs, const mezzo::detail::Function<Tensors(FunctionContext&, TensorList)>& forward,
      const mezzo::detail::Function<Tensors(const FunctionContext&, TensorList)>& backward);
  Tensors saved_;
  std::span<const bool> needs_ = {};
};

using FunctionForward = mezzo::detail::Function<Tensors(FunctionContext&, TensorList inputs)>;
using FunctionBackward = mezzo::detail::Function<Tensors(const FunctionContext&, TensorList grads)>;

/// forward(context, inputs), whose gradient is backward(context, grads): a gradient for each input, or an
/// undefined tensor, from the gradients of the results (zeros where none came). forward runs unrecorded,
/// under the autocast of its caller, and backward under the same. Made of public ops, backward can be
/// differentiated again. Data beside tensors are captured by both closures. Throws: AutogradError, in
/// backward, for another number of gradients than inputs. Source: torch.autograd.Function.
[[nodiscard]] Tensors function(TensorList inputs, const FunctionForward& forward,
                               const FunctionBackward& backward);

}  // namespace mezzo::autograd
