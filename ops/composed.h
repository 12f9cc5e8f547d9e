// For ops that are a composition of public ops under one name: the dtype of their result, and their inputs
// in the dtype they compute in. Their vjp is kDecomposed.
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

}  // namespace mezzo::ops
