// Checks of a cell's tensors, the products of all its gates (with f32 results for 16-bit inputs), and the
// gradients of these products. A sample without a batch dim runs as a batch of one.
#include "mezzo/ops/recurrent/common.h"

#include <algorithm>
#include <utility>

#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduction.h"
#include "mezzo/ops/shape.h"

namespace mezzo::ops {

void require_state(std::string_view op, const std::string& what, const Tensor& tensor) {
  require_floating(op, tensor);
  if (tensor.dim() == 2) return;
  throw ShapeError(op, what, to_string(tensor.shape()), "pass matrices with a row per sample");
}

void require_sizes(std::string_view op, const std::string& what, const Tensor& tensor, const Shape& sizes) {
  require_floating(op, tensor);
  if (tensor.shape() == sizes) return;
  throw ShapeError(op, what + " " + to_string(sizes), to_string(tensor.shape()),
                   "all tensors of a cell share its batch, its features and its hidden size");
}

void require_cell(std::string_view op, const CellInputs& inputs, std::int64_t gates) {
  const auto& [x, h, w_ih, w_hh, b_ih, b_hh] = inputs;
  require_floating(op, x);
  for (const Tensor* other : {&h, &w_ih, &w_hh, &b_ih, &b_hh}) {
    if (other->defined()) static_cast<void>(product_dtype(op, x, *other, {}));
  }
  require_state(op, "x [N, I]", x);
  require_state(op, "h [N, H]", h);
  const std::int64_t hidden = h.size(1), rows = gates * hidden;
  require_sizes(op, "h", h, {x.size(0), hidden});
  require_sizes(op, "w_ih", w_ih, {rows, x.size(1)});
  require_sizes(op, "w_hh", w_hh, {rows, hidden});
  for (const auto& [what, bias] : {std::pair{"b_ih ", &b_ih}, {"b_hh ", &b_hh}}) {
    if (!bias->defined() || bias->shape() == Shape{rows}) continue;
    throw ShapeError(op, what + to_string(Shape{rows}), to_string(bias->shape()),
                     "give it one element per row of the weights");
  }
}

Tensor cell_product(const Tensor& x, const Tensor& weight, const Tensor& sum) {
  const TensorOptions options{.dtype = unrounded(x.dtype()), .device = x.device()};
  Tensor out = sum.defined() ? sum : empty({x.size(0), weight.size(0)}, options);
  product_into(out, x, transpose(weight, 0, 1), 1, sum.defined() ? 1 : 0);
  return out;
}

Tensor for_many_products(const Tensor& weight) {
  const DType dtype = weight.dtype();
  const bool native = !weight.device().is_cpu() ||
                      (dtype == DType::bf16 && kernels::cpu::bf16_gemm() == kernels::cpu::Bf16Gemm::native);
  return (native ? weight : to(weight, unrounded(dtype))).contiguous();
}

kernels::View gate_view(const Tensor& gates, std::int64_t k, const Shape& state) {
  if (!gates.defined()) return {nullptr, DType::f32, state, {0, 0}};
  kernels::View view = view_of(gates);
  const std::int64_t step = view.strides.back();
  // An empty tensor has no memory to count from.
  if (view.data != nullptr)
    view.data = static_cast<std::byte*>(view.data) + k * state[1] * step * size_of(view.dtype);
  view.strides = {gates.dim() == 1 ? 0 : view.strides[0], step};
  view.shape = state;
  return view;
}

Tensor composed_product(const Tensor& x, const Tensor& weight, const Tensor& bias, DType compute) {
  return linear(to(x, compute), to(weight, compute), bias.defined() ? to(bias, compute) : bias);
}

Tensors composed_gates(const Tensor& gates, std::int64_t count) {
  return split(gates, IntList(static_cast<std::size_t>(count), gates.size(1) / count), 1);
}

Tensor composed_gradient(const Tensor& grad, const Tensor& like, DType compute) {
  return grad.defined() ? to(grad, compute)
                        : zeros(like.shape(), {.dtype = compute, .device = like.device()});
}

void spread_weights(const VjpContext& args, Gradients& gradients, const Tensor& grad, const Tensor& x,
                    std::size_t weight, std::size_t bias) {
  if (args.needs(weight)) gradients[weight] = matmul(transpose(grad, 0, 1), x, args.wanted(weight));
  if (args.needs(bias)) gradients[bias] = sum(grad, {0}, false, args.wanted(bias));
}

void spread_product(const VjpContext& args, Gradients& gradients, const Tensor& grad,
                    const ProductPlaces& places) {
  const auto [x, weight, bias] = places;
  if (args.needs(x)) gradients[x] = matmul(grad, args.in(weight), args.wanted(x));
  spread_weights(args, gradients, grad, args.in(x), weight, bias);
}

Outputs call_cell(const Op<NoAttrs>& op, Inputs inputs, std::size_t states) {
  const auto is_sample = [](const TensorRef& input) { return input->defined() && input->dim() == 1; };
  if (!std::all_of(inputs.begin(), inputs.begin() + states + 1, is_sample)) return bind(op, inputs);
  SmallVector<Tensor, 8> batch(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i <= states; ++i) batch[i] = unsqueeze(batch[i], 0);
  const SmallVector<TensorRef, 8> refs(batch.begin(), batch.end());
  Outputs outputs = bind(op, Inputs(refs));
  for (Tensor& output : outputs) output = squeeze(output, 0);
  return outputs;
}

std::vector<Sample<NoAttrs>> cell_samples(std::int64_t gates, std::size_t states) {
  using op_samples::absent;
  using op_samples::real;
  const auto sample = [&](std::int64_t n, std::int64_t features, std::int64_t hidden, bool biases) {
    const auto weight = [&](Shape shape) { return real(shape, -1, 1); };
    Sample<NoAttrs> result{{real({n, features})}};
    for (std::size_t s = 0; s < states; ++s) result.inputs.push_back(real({n, hidden}));
    for (const std::int64_t columns : {features, hidden})
      result.inputs.push_back(weight({gates * hidden, columns}));
    for (int b = 0; b < 2; ++b) result.inputs.push_back(biases ? weight({gates * hidden}) : absent());
    return result;
  };
  return {sample(3, 4, 5, true), sample(2, 3, 2, false), sample(1, 1, 1, true), sample(0, 2, 3, true)};
}

}  // namespace mezzo::ops
