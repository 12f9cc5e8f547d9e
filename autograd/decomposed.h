// Gradients by differentiating a composition: for fused ops, whose own kernel stays the fast path while every
// derivative beyond it comes from public ops.
#pragma once

#include <functional>
#include <span>

#include "mezzo/autograd/vjp_args.h"

namespace mezzo {

/// The gradients of the inputs that are `asked` for, through `compose`, a composition of public ops of all of
/// them, given the gradients of what it returns (undefined: none). A gradient is undefined where nothing
/// depends on its input. With recording on they are recorded: so the reference of a gradient op is the
/// composition that its forward equals.
[[nodiscard]] Tensors composed_gradients(const Tensors& inputs, std::span<const bool> asked,
                                         const Tensors& grads,
                                         const std::function<Outputs(const Tensors&)>& compose);

namespace detail {
/// Differentiates `compose` at the saved inputs; see decomposed().
[[nodiscard]] Gradients differentiate(const VjpContext& context,
                                      const std::function<Outputs(Inputs)>& compose);
}  // namespace detail

/// vjp of any op that equals `reference`, a plain composition of public ops: runs it again, recorded, and
/// differentiates it. With create_graph the result is recorded too, so every order follows. Asks for `saves`
/// of all inputs.
template <class A>
Gradients decomposed(const VjpArgs<A>& args, typename Op<A>::Forward reference) {
  return detail::differentiate(args, [&](Inputs inputs) -> Outputs {
    return reference(ForwardArgs<A>{inputs, args.attrs});
  });
}
/// decomposed(args, reference) by the op's own `reference`, or, without one, by its forward, which then is
/// itself a composition of public ops.
template <class A>
Gradients decomposed(const VjpArgs<A>& args) {
  return decomposed(args, args.op.reference != nullptr ? args.op.reference : args.op.forward.value);
}
/// decomposed(args, reference) by a composition that the descriptor does not name as its reference.
template <auto Reference, class A>
Gradients decomposed(const VjpArgs<A>& args) {
  return decomposed(args, typename Op<A>::Forward(Reference));
}

/// For a descriptor: `.vjp = kDecomposed` is decomposed(args).
struct Decomposed {
  template <class A>
  constexpr operator Vjp<A>() const {
    return Vjp<A>([](const VjpArgs<A>& args) { return decomposed(args); });
  }
};
inline constexpr Decomposed kDecomposed;

}  // namespace mezzo
