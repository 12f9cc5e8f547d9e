// For ops that are, or equal, a composition of public ops: the dtype of their result, their inputs in the
// dtype they compute in, and the descriptors of the two kinds whose gradient is the composition's.
#pragma once

#include "mezzo/autograd/decomposed.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// Common dtype of the inputs, which must be floating (DTypeError). Autocast's f32 does not narrow f64.
template <class A>
[[nodiscard]] DType floating_result(std::string_view op, const ForwardArgs<A>& args) {
  ResultType common;
  for (const Tensor& x : args.inputs) {
    require_floating(op, x);
    common.add(x);
  }
  return args.run_dtype ? promote(common.get(), *args.run_dtype) : common.get();
}

/// Input i in `dtype`, with history; undefined when it is absent.
template <class A>
[[nodiscard]] Tensor input_as(const ForwardArgs<A>& args, std::size_t i, DType dtype) {
  return args.in(i).defined() ? to(args.in(i), dtype) : Tensor();
}

/// The descriptor of a composition under one name, which autocast has computed in f32. Its gradient is the
/// composition's unless `vjp` has a better way to the same.
template <class A>
[[nodiscard]] constexpr Op<A> composed_op(std::string_view name, typename Op<A>::SampleList samples,
                                          typename Op<A>::Forward forward,
                                          std::type_identity_t<Vjp<A>> vjp = kDecomposed) {
  Op<A> op = plain_op<A>(name, Category::fp32, samples, forward, vjp, {~0U, 0});
  op.reference = forward;
  return op;
}

/// The descriptor of a composition that autocast leaves alone.
template <class A>
[[nodiscard]] constexpr Op<A> plain_composition(std::string_view name, typename Op<A>::SampleList samples,
                                                typename Op<A>::Forward forward) {
  return plain_op<A>(name, Category::passthrough, samples, forward, kDecomposed, {~0U, 0});
}

/// The descriptor of a fused op, with the composition that it equals.
template <class A>
[[nodiscard]] constexpr Op<A> fused_op(std::string_view name, Category category,
                                       typename Op<A>::SampleList samples, typename Op<A>::Forward forward,
                                       typename Op<A>::Forward reference, std::type_identity_t<Vjp<A>> vjp,
                                       Saves saves, std::uint32_t optional_inputs = 0) {
  Op<A> op = plain_op<A>(name, category, samples, forward, vjp, saves, optional_inputs);
  op.reference = reference;
  return op;
}

/// The descriptor of a gradient with kernels of its own, and of what it equals: what it is differentiated by.
template <class A>
[[nodiscard]] constexpr Op<A> gradient_op(std::string_view name, typename Op<A>::SampleList samples,
                                          typename Op<A>::Forward forward, typename Op<A>::Forward reference,
                                          std::uint32_t optional_inputs = 0) {
  return fused_op<A>(name, Category::passthrough, samples, forward, reference, kDecomposed, {~0U, 0},
                     optional_inputs);
}

}  // namespace mezzo::ops
