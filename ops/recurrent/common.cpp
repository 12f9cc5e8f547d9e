// Checks of a cell's tensors, the products of all its gates (with f32 results for 16-bit inputs), their
// gradients, and samples. A sample without a batch dim runs as a batch of one.
#include "mezzo/ops/recurrent/common.h"

#include <algorithm>
#include <utility>

#include "mezzo/kernels/gemm/gemm.h"
#include "mezzo/ops/ops.h"

namespace mezzo::ops {

Shape with_columns(Shape steps, std::int64_t columns) {
  steps.back() = columns;
  return steps;
}

Tensor as_rows(const Tensor& steps) {
  return is_sequence(steps.shape()) ? reshape(steps, {steps.size(0) * steps.size(1), steps.size(2)}) : steps;
}

Tensor states_before(const Order& order, const Tensor& first, const Tensor& states) {
  const Tensor start = unsqueeze(first, 0);
  return order.reverse ? cat({narrow(states, 0, 1, order.length - 1), start})
                       : cat({start, narrow(states, 0, 0, order.length - 1)});
}

void require_sizes(std::string_view op, const std::string& what, const Tensor& tensor, const Shape& sizes) {
  require_floating(op, tensor);
  if (tensor.shape() == sizes) return;
  throw ShapeError(op, what + " " + to_string(sizes), to_string(tensor.shape()),
                   "all tensors of a cell share its batch, its features and its hidden size");
}

namespace {
void require_matrix(std::string_view op, const std::string& what, const Tensor& tensor) {
  require_floating(op, tensor);
  if (tensor.dim() == 2) return;
  throw ShapeError(op, what, to_string(tensor.shape()), "pass matrices with a row per sample");
}
}  // namespace

void require_cell(std::string_view op, const CellInputs& inputs, std::int64_t gates) {
  const auto& [x, h, w_ih, w_hh, b_ih, b_hh] = inputs;
  require_floating(op, x);
  for (const Tensor* other : {&h, &w_ih, &w_hh, &b_ih, &b_hh}) {
    if (other->defined()) static_cast<void>(product_dtype(op, x, *other, {}));
  }
  require_matrix(op, "x [N, I]", x);
  require_matrix(op, "h [N, H]", h);
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

void require_cell_of_sequence(std::string_view op, const CellInputs& inputs, std::int64_t gates) {
  require_floating(op, inputs.x);
  if (inputs.x.dim() != 3 || inputs.x.size(0) == 0) {
    throw ShapeError(op, "x [L, N, I] with at least one step", to_string(inputs.x.shape()),
                     "the first dim counts the steps, the second one the samples");
  }
  const Tensor first = at(inputs.x, 0);
  require_cell(op, {first, inputs.h, inputs.w_ih, inputs.w_hh, inputs.b_ih, inputs.b_hh}, gates);
}

Tensor product_of_steps(const Tensor& steps, const Tensor& weight) {
  const Tensor rows = as_rows(steps);
  const Tensor out =
      empty({rows.size(0), weight.size(0)}, {.dtype = unrounded(steps.dtype()), .device = steps.device()});
  product_into(out, rows, transpose(weight, 0, 1), 1, 0);
  return is_sequence(steps.shape()) ? reshape(out, with_columns(steps.shape(), weight.size(0))) : out;
}

Tensor for_products(const Tensor& weight, std::int64_t steps) {
  if (steps == 1) return weight;
  const DType dtype = weight.dtype();
  const bool native = !weight.device().is_cpu() ||
                      (dtype == DType::bf16 && kernels::cpu::bf16_gemm() == kernels::cpu::Bf16Gemm::native);
  return (native ? weight : to(weight, unrounded(dtype))).contiguous();
}

void spread_weights(const VjpContext& args, Gradients& gradients, const Tensor& grad, const Tensor& x,
                    std::size_t weight, std::size_t bias) {
  if (args.needs(weight)) gradients[weight] = matmul(transpose(grad, 0, 1), x, args.wanted(weight));
  if (args.needs(bias)) gradients[bias] = sum(grad, {0}, false, args.wanted(bias));
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
  return linear(to(x, compute), to(weight, compute), in_dtype(bias, compute));
}

Tensors composed_gates(const Tensor& gates, std::int64_t count) {
  return split(gates, IntList(static_cast<std::size_t>(count), gates.size(1) / count), 1);
}

Tensor stacked(const std::vector<Tensor>& steps, bool sequence) { return sequence ? stack(steps) : steps[0]; }

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

std::vector<SampleInput> cell_sample(std::int64_t gates, std::size_t states, std::int64_t length,
                                     std::int64_t batch, std::int64_t features, std::int64_t hidden,
                                     bool biases) {
  using op_samples::real;
  std::vector<SampleInput> inputs{
      real(length == 0 ? Shape{batch, features} : Shape{length, batch, features})};
  for (std::size_t s = 0; s < states; ++s) inputs.push_back(real({batch, hidden}));
  for (const std::int64_t columns : {features, hidden})
    inputs.push_back(real({gates * hidden, columns}, -1, 1));
  for (int b = 0; b < 2; ++b) inputs.push_back(biases ? real({gates * hidden}, -1, 1) : op_samples::absent());
  return inputs;
}

}  // namespace mezzo::ops
