// Gradients by differentiating a composition: for fused ops, whose own kernel stays the fast path while every
// derivative beyond it comes from public ops.
#pragma once

#include <functional>

#include "mezzo/autograd/vjp_args.h"

namespace mezzo {

namespace detail {
/// Differentiates `compose` at the saved inputs; see decomposed().
[[nodiscard]] Gradients differentiate(const VjpContext& context,
                                      const std::function<Outputs(Inputs)>& compose);
}  // namespace detail

/// vjp of any op that equals `Reference`, a plain composition of public ops: runs it again, recorded, and
/// differentiates it. With create_graph the result is recorded too, so every order follows. Asks for `saves`
/// of all inputs.
template <auto Reference, class A>
Gradients decomposed(const VjpArgs<A>& args) {
  return detail::differentiate(args, [&](Inputs inputs) -> Outputs {
    return Reference(ForwardArgs<A>{inputs, args.attrs});
  });
}

}  // namespace mezzo
