// The pieces that forwards are made of: views of tensors, common checks, and the two shapes that nearly all
// elementwise ops have. For .cpp files that hand tensors to kernels, and internal headers of ops/.
#pragma once

#include <array>
#include <vector>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/promotion.h"
#include "mezzo/kernels/pointwise/pointwise.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"

namespace mezzo::ops {

/// The one option of ops along a dim.
struct AlongAttrs {
  std::int64_t dim = 0;
  MEZZO_FIELDS(AlongAttrs, dim)
};

/// The kernel's view of a tensor.
[[nodiscard]] inline kernels::View view_of(const Tensor& tensor) {
  return {tensor.impl().data(), tensor.dtype(), tensor.shape(), tensor.strides()};
}

/// The views of several.
template <class Tensors>
[[nodiscard]] std::vector<kernels::View> views_of(const Tensors& tensors) {
  std::vector<kernels::View> views;
  views.reserve(tensors.size());
  for (const Tensor& tensor : tensors) views.push_back(view_of(tensor));
  return views;
}

/// A view of `tensor` broadcast to `shape`.
[[nodiscard]] inline kernels::View expanded_view(std::string_view op, const Tensor& tensor,
                                                 const Shape& shape) {
  if (tensor.shape() == shape) return view_of(tensor);
  return {tensor.impl().data(), tensor.dtype(), shape,
          layout::expand_strides(op, tensor.shape(), tensor.strides(), shape)};
}

/// The dtype real-valued functions return: floating inputs keep theirs, integers and bools give f32 (as in
/// PyTorch).
[[nodiscard]] inline DType real_result(DType dtype) { return is_floating(dtype) ? dtype : DType::f32; }

/// Throws: ValueError for an undefined tensor: for functions that look at it before bind does.
inline void require_defined(std::string_view op, const Tensor& tensor) {
  if (tensor.defined()) return;
  throw ValueError(op, "a tensor", "an undefined one", "an absent tensor has no values");
}

/// Throws: DTypeError unless the tensor is floating, and for float8.
inline void require_floating(std::string_view op, const Tensor& tensor) {
  require_compute_dtype(op, tensor.dtype());
  if (is_floating(tensor.dtype())) return;
  throw DTypeError(op, "a floating tensor", to_string(tensor.dtype()), "convert it with to(DType::f32)");
}

/// 16-bit values as f32: formulas of several steps are not rounded at each of them.
[[nodiscard]] inline Tensor widened(const Tensor& x) { return is_16bit(x.dtype()) ? to(x, DType::f32) : x; }

/// The memory format of an elementwise result of `shape`: channels-last when an input of that shape is.
template <std::size_t N>
[[nodiscard]] MemoryFormat common_format(const Shape& shape, const std::array<const Tensor*, N>& inputs) {
  if (shape.size() < 3) return MemoryFormat::contiguous;
  for (const Tensor* input : inputs) {
    if (input->shape() == shape && input->suggest_memory_format() == MemoryFormat::channels_last)
      return MemoryFormat::channels_last;
  }
  return MemoryFormat::contiguous;
}

/// The descriptor of an op with the usual properties. One of category fp32 widens 16-bit inputs itself.
template <class A = NoAttrs>
[[nodiscard]] constexpr Op<A> plain_op(std::string_view name, Category category,
                                       typename Op<A>::SampleList samples, typename Op<A>::Forward forward,
                                       std::type_identity_t<Vjp<A>> vjp, Saves saves = kSaveAll,
                                       std::uint32_t optional_inputs = 0) {
  return {.info = {.name = name,
                   .category = category,
                   .reads_16bit = category == Category::fp32,
                   .optional_inputs = optional_inputs},
          .samples = samples,
          .forward = forward,
          .vjp = vjp,
          .saves = saves};
}

/// The op with any number of inputs.
template <class A>
[[nodiscard]] constexpr Op<A> taking_list(Op<A> op) {
  op.info.takes_list = true;
  return op;
}

/// The descriptor of an op that moves or casts elements, of float8 too: its gradient needs no values.
template <class A = NoAttrs>
[[nodiscard]] constexpr Op<A> moving_op(std::string_view name, typename Op<A>::SampleList samples,
                                        typename Op<A>::Forward forward, std::type_identity_t<Vjp<A>> vjp) {
  Op<A> op = plain_op<A>(name, Category::passthrough, samples, forward, vjp, kSaveNothing);
  op.info.takes_float8 = true;
  return op;
}

/// Elementwise f over inputs broadcast together, in the compute type of `compute`, into a new tensor of dtype
/// `result`. A 0-dim CPU tensor among inputs of another device is a plain number to the kernel. kReal: f
/// makes sense on f32 and f64 only.
template <std::size_t N, bool kReal = false, class F>
[[nodiscard]] Tensor map(std::string_view op, F f, const std::array<const Tensor*, N>& inputs, DType compute,
                         DType result) {
  Shape shape = inputs[0]->shape();
  Device device = inputs[0]->device();
  for (std::size_t i = 1; i < N; ++i) {
    if (inputs[i]->shape() != shape) shape = layout::broadcast(op, shape, inputs[i]->shape());
    if (!inputs[i]->device().is_cpu()) device = inputs[i]->device();
  }
  Tensor out =
      empty(shape, {.dtype = result, .device = device, .memory_format = common_format(shape, inputs)});
  const auto views = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<kernels::View, N>{expanded_view(op, *inputs[I], shape)...};
  }
  (std::make_index_sequence<N>{});
  if constexpr (kReal)
    kernels::pointwise_real(out.device(), f, view_of(out), views, compute);
  else
    kernels::pointwise(out.device(), f, view_of(out), views, compute);
  return out;
}

/// Forward of `F{}(x)` on any dtype; the result keeps it.
template <class F>
Outputs unary(const ForwardArgs<NoAttrs>& args) {
  const Tensor& x = args.in(0);
  return map<1>("", F{}, {&x}, x.dtype(), x.dtype());
}

/// Forward of `F{}(x)` for functions of real numbers: integers give f32, and an f32 result of 16-bit input
/// when autocast asks for it (run_dtype).
template <class F, class A = NoAttrs>
Outputs real_unary(const ForwardArgs<A>& args) {
  const Tensor& x = args.in(0);
  const DType result = args.run_dtype.value_or(real_result(x.dtype()));
  Tensor out = empty_like(x, result);
  const auto functor = [&] {
    if constexpr (std::is_constructible_v<F, const A&>)
      return F(args.attrs);
    else
      return F{};
  }();
  kernels::pointwise_real(out.device(), functor, view_of(out), std::array{view_of(x)}, compute_dtype(result));
  return out;
}

}  // namespace mezzo::ops
