// lstm_cell, and the pointwise part of its gradient as an op of its own.
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/recurrent_common.h"
#include "mezzo/ops/shape.h"

namespace mezzo {

namespace {

using namespace ops;
using samples::absent;
using samples::real;

constexpr std::int64_t kGates = 4;

// --- lstm_cell_backward. Inputs: the gradients of h', c' and the gates; the gates, c and c'. Outputs: the
// gradients of the sums that went into the gates, and of c.

constexpr std::string_view kBackward = "lstm_cell_backward";

/// Inputs of the backward op, checked.
struct Backward {
  explicit Backward(const ForwardArgs<CellBackwardAttrs>& args)
      : grad_h(args.in(0)),
        grad_c(args.in(1)),
        grad_gates(args.in(2)),
        gates(args.in(3)),
        c(args.in(4)),
        new_c(args.in(5)),
        state_dtype(args.attrs.state_dtype.value_or(gates.dtype())) {
    require_state(kBackward, "c [N, H]", c);
    const std::int64_t n = c.size(0), hidden = c.size(1);
    require_matrix(kBackward, "gates", gates, n, kGates * hidden);
    require_matrix(kBackward, "c'", new_c, n, hidden);
    if (grad_h.defined()) require_matrix(kBackward, "the gradient of h'", grad_h, n, hidden);
    if (grad_c.defined()) require_matrix(kBackward, "the gradient of c'", grad_c, n, hidden);
    if (grad_gates.defined())
      require_matrix(kBackward, "the gradient of the gates", grad_gates, n, kGates * hidden);
  }
  const Tensor &grad_h, &grad_c, &grad_gates, &gates, &c, &new_c;
  DType state_dtype;
};

Outputs backward_forward(const ForwardArgs<CellBackwardAttrs>& args) {
  const Backward b(args);
  const Shape& state = b.c.shape();
  const Device device = b.c.device();
  const Tensor grad = empty(b.gates.shape(), options_of(b.gates));
  const Tensor grad_c = empty(state, {.dtype = b.state_dtype, .device = device});
  const auto gate = [&](const Tensor& gates, std::int64_t k) { return gate_view(gates, k, state); };
  kernels::cell_map(device, kernels::scalar::LstmCellBackwardFn{},
                    {gate(grad, 0), gate(grad, 1), gate(grad, 2), gate(grad, 3), view_of(grad_c)},
                    {state_view(b.grad_h), state_view(b.grad_c), gate(b.grad_gates, 0), gate(b.grad_gates, 1),
                     gate(b.grad_gates, 2), gate(b.grad_gates, 3), gate(b.gates, 0), gate(b.gates, 1),
                     gate(b.gates, 2), gate(b.gates, 3), view_of(b.c), view_of(b.new_c)},
                    common_compute(args));
  return {grad, grad_c};
}

Outputs backward_reference(const ForwardArgs<CellBackwardAttrs>& args) {
  const Backward b(args);
  const DType compute = common_compute(args);
  const Tensors gates = plain_gates(to(b.gates, compute), kGates);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const Tensor t = tanh(to(b.new_c, compute)), grad_h = plain_gradient(b.grad_h, b.c, compute);
  const Tensor of_c = plain_gradient(b.grad_c, b.c, compute) + grad_h * o * (1 - t * t);
  const Tensor own = plain_gradient(b.grad_gates, b.gates, compute);
  const Tensor of_gates = own + cat({of_c * g, of_c * to(b.c, compute), of_c * i, grad_h * t}, 1);
  const Tensor slopes = cat({i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)}, 1);
  return {to(of_gates * slopes, b.gates.dtype()), to(of_c * f, b.state_dtype)};
}

std::vector<Sample<CellBackwardAttrs>> backward_samples() {
  const SampleInput state = real({3, 2}), gates = real({3, 8}), open = real({3, 8}, 0.1, 0.9);
  return {{{state, state, gates, open, state, state}, {}},
          {{state, absent(), absent(), open, state, state}, {}},
          {{absent(), real({1, 3}), absent(), real({1, 12}), real({1, 3}), real({1, 3})}, {}}};
}
constexpr Op<CellBackwardAttrs> backward_op{
    .info = {.name = kBackward, .category = Category::passthrough, .optional_inputs = tensor_set(0, 1, 2)},
    .samples = backward_samples,
    .forward = backward_forward,
    .vjp = decomposed<backward_reference, CellBackwardAttrs>,
    .saves = {~0U, 0},
    .reference = backward_reference,
};
const Registered backward_registered{backward_op};

// --- lstm_cell. Inputs: x, h, c, w_ih, w_hh, b_ih, b_hh. Outputs: h', c', gates

constexpr std::string_view kName = "lstm_cell";

CellInputs checked(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = CellInputs::of(args, 2);
  require_cell(kName, cell, kGates);
  const Tensor& c = args.in(2);
  require_matrix(kName, "c", c, cell.batch(), cell.hidden());
  static_cast<void>(product_dtype(kName, cell.x, c, {}));
  return cell;
}

Outputs forward(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked(args);
  const Shape& state = cell.h.shape();
  const TensorOptions options = options_of(cell.x);
  const Tensor sums = cell_product(cell.h, cell.w_hh, cell_product(cell.x, cell.w_ih));
  const Tensor gates = sums.dtype() == cell.dtype() ? sums : empty(sums.shape(), options);
  const Tensor new_h = empty(state, options), new_c = empty(state, options);
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, state); };
  kernels::cell_map(
      new_h.device(), kernels::scalar::LstmCellFn{},
      {gate(gates, 0), gate(gates, 1), gate(gates, 2), gate(gates, 3), view_of(new_h), view_of(new_c)},
      {gate(sums, 0), gate(sums, 1), gate(sums, 2), gate(sums, 3), gate(cell.b_ih, 0), gate(cell.b_ih, 1),
       gate(cell.b_ih, 2), gate(cell.b_ih, 3), gate(cell.b_hh, 0), gate(cell.b_hh, 1), gate(cell.b_hh, 2),
       gate(cell.b_hh, 3), view_of(args.in(2))},
      cell.compute());
  return {new_h, new_c, gates};
}

Outputs reference(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked(args);
  const DType compute = cell.compute();
  const Tensors sums = plain_gates(plain_product(cell.x, cell.w_ih, cell.b_ih, compute) +
                                       plain_product(cell.h, cell.w_hh, cell.b_hh, compute),
                                   kGates);
  const Tensor i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
  const Tensor new_c = f * to(args.in(2), compute) + i * g;
  const auto result = [&](const Tensor& x) { return to(x, cell.dtype()); };
  return {result(o * tanh(new_c)), result(new_c), result(cat({i, f, g, o}, 1))};
}

Gradients vjp(const VjpArgs<NoAttrs>& args) {
  const Tensors found = bind(backward_op,
                             {grad_or_none(args, 0), grad_or_none(args, 1), grad_or_none(args, 2),
                              args.out(2), args.in(2), args.out(1)},
                             CellBackwardAttrs{args.wanted(2)});
  Gradients result(args.num_inputs());
  spread_product(args, result, found[0], {0, 3, 5});
  spread_product(args, result, found[0], {1, 4, 6});
  if (args.needs(2)) result[2] = found[1];
  return result;
}

std::vector<Sample<NoAttrs>> samples_of_cell() { return cell_samples(kGates, 2); }
constexpr Op<NoAttrs> cell_op{
    .info = {.name = kName, .category = Category::lower_precision, .optional_inputs = tensor_set(5, 6)},
    .samples = samples_of_cell,
    .forward = forward,
    .vjp = vjp,
    .saves = {tensor_set(0, 1, 2, 3, 4), tensor_set(1, 2)},
    .reference = reference,
};
const Registered cell_registered{cell_op};

}  // namespace

LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                    const Tensor& b_ih, const Tensor& b_hh) {
  const Outputs outputs = call_cell(cell_op, {x, state.h, state.c, w_ih, w_hh, b_ih, b_hh}, 2);
  return {outputs[0], outputs[1]};
}

}  // namespace mezzo
