// lstm_cell and lstm_sequence, and the part of their gradients that is no product over all steps as ops of
// their own.
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/sequence.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::real;

constexpr std::int64_t kLstmGates = 4;

// --- scalar math

namespace math = kernels::math;
using kernels::Numbers;
using kernels::scalar::SigmoidBackwardFn;
using kernels::scalar::TanhBackwardFn;

/// Inputs: the sums of both products for the gates i, f, g, o, then b_ih and b_hh for each of them, and c.
/// Results: i, f, g, o, and h' = o tanh(c'), c' = f c + i g.
struct LstmCellFn {
  static constexpr std::size_t kInputs = 13, kResults = 6;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T i = math::sigmoid(x.at[0] + (x.at[4] + x.at[8]));
    const T f = math::sigmoid(x.at[1] + (x.at[5] + x.at[9]));
    const T g = math::tanh(x.at[2] + (x.at[6] + x.at[10]));
    const T o = math::sigmoid(x.at[3] + (x.at[7] + x.at[11]));
    const T c = f * x.at[12] + i * g;
    return {{i, f, g, o, o * math::tanh(c), c}};
  }
};

/// Inputs: the gradients of h', of c' and of the gates i, f, g, o; the gates; c and c'. Results: the
/// gradients of the four sums that went into the gates, and of c.
struct LstmCellBackwardFn {
  static constexpr std::size_t kInputs = 12, kResults = 5;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T i = x.at[6], f = x.at[7], g = x.at[8], o = x.at[9];
    const T t = math::tanh(x.at[11]);
    const T of_c = x.at[1] + TanhBackwardFn{}(x.at[0] * o, t);
    return {{SigmoidBackwardFn{}(x.at[2] + of_c * g, i), SigmoidBackwardFn{}(x.at[3] + of_c * x.at[10], f),
             TanhBackwardFn{}(x.at[4] + of_c * i, g), SigmoidBackwardFn{}(x.at[5] + x.at[0] * t, o),
             of_c * f}};
  }
};

// --- one step, without the products

/// Results of a step and of its gradient.
struct LstmStep {
  Tensor h, c, gates;
};
struct LstmStepGradient {
  Tensor sums, c;
};

/// Writes `to`, given the sums of both products; sums may be to.gates.
void run_step(const LstmStep& to, const Tensor& sums, const Tensor& c, const CellInputs& cell) {
  const Shape& state = c.shape();
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, state); };
  kernels::cell_map(to.h.device(), LstmCellFn{},
                    {gate(to.gates, 0), gate(to.gates, 1), gate(to.gates, 2), gate(to.gates, 3),
                     view_of(to.h), view_of(to.c)},
                    {gate(sums, 0), gate(sums, 1), gate(sums, 2), gate(sums, 3), gate(cell.b_ih, 0),
                     gate(cell.b_ih, 1), gate(cell.b_ih, 2), gate(cell.b_ih, 3), gate(cell.b_hh, 0),
                     gate(cell.b_hh, 1), gate(cell.b_hh, 2), gate(cell.b_hh, 3), view_of(c)},
                    cell.compute());
}

/// Writes `to`, given the gradients of a step's results, undefined for none, its gates, c and c'. The
/// gradient of c may be in the memory of the gradient of c'.
void run_step_gradient(const LstmStepGradient& to, const LstmStep& grad, const Tensor& gates, const Tensor& c,
                       const Tensor& new_c, DType compute) {
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, c.shape()); };
  kernels::cell_map(c.device(), LstmCellBackwardFn{},
                    {gate(to.sums, 0), gate(to.sums, 1), gate(to.sums, 2), gate(to.sums, 3), view_of(to.c)},
                    {state_view(grad.h), state_view(grad.c), gate(grad.gates, 0), gate(grad.gates, 1),
                     gate(grad.gates, 2), gate(grad.gates, 3), gate(gates, 0), gate(gates, 1), gate(gates, 2),
                     gate(gates, 3), view_of(c), view_of(new_c)},
                    compute);
}

/// run_step and run_step_gradient in plain ops, in the dtype of their arguments.
LstmStep composed_step(const Tensor& sums, const Tensor& c) {
  const Tensors sum = composed_gates(sums, kLstmGates);
  const Tensor i = sigmoid(sum[0]), f = sigmoid(sum[1]), g = tanh(sum[2]), o = sigmoid(sum[3]);
  const Tensor new_c = f * c + i * g;
  return {o * tanh(new_c), new_c, cat({i, f, g, o}, 1)};
}
LstmStepGradient composed_step_gradient(const LstmStep& grad, const Tensor& gates, const Tensor& c,
                                        const Tensor& new_c) {
  const Tensors gate = composed_gates(gates, kLstmGates);
  const Tensor &i = gate[0], &f = gate[1], &g = gate[2], &o = gate[3];
  const Tensor t = tanh(new_c), of_c = grad.c + grad.h * o * (1 - t * t);
  const Tensor of_gates = grad.gates + cat({of_c * g, of_c * c, of_c * i, grad.h * t}, 1);
  return {of_gates * cat({i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)}, 1), of_c * f};
}

// --- lstm_cell_backward. Inputs: the gradients of h', c' and the gates; the gates, c and c'. Outputs: the
// gradients of the sums that went into the gates, and of c.

constexpr std::string_view kLstmBackward = "lstm_cell_backward";

/// Inputs of the backward op, checked.
struct LstmBackward {
  explicit LstmBackward(const ForwardArgs<CellBackwardAttrs>& args)
      : grad_h(args.in(0)),
        grad_c(args.in(1)),
        grad_gates(args.in(2)),
        gates(args.in(3)),
        c(args.in(4)),
        new_c(args.in(5)),
        state_dtype(args.attrs.state_dtype.value_or(gates.dtype())) {
    require_state(kLstmBackward, "c [N, H]", c);
    const std::int64_t n = c.size(0), hidden = c.size(1);
    require_sizes(kLstmBackward, "gates", gates, {n, kLstmGates * hidden});
    require_sizes(kLstmBackward, "c'", new_c, {n, hidden});
    if (grad_h.defined()) require_sizes(kLstmBackward, "the gradient of h'", grad_h, {n, hidden});
    if (grad_c.defined()) require_sizes(kLstmBackward, "the gradient of c'", grad_c, {n, hidden});
    if (grad_gates.defined())
      require_sizes(kLstmBackward, "the gradient of the gates", grad_gates, {n, kLstmGates * hidden});
  }
  const Tensor &grad_h, &grad_c, &grad_gates, &gates, &c, &new_c;
  DType state_dtype;
};

Outputs lstm_backward_forward(const ForwardArgs<CellBackwardAttrs>& args) {
  const LstmBackward b(args);
  const LstmStepGradient found{
      empty(b.gates.shape(), options_of(b.gates)),
      empty(b.c.shape(), {.dtype = b.state_dtype, .device = b.c.device()}),
  };
  run_step_gradient(found, {b.grad_h, b.grad_c, b.grad_gates}, b.gates, b.c, b.new_c, common_compute(args));
  return {found.sums, found.c};
}

Outputs lstm_backward_reference(const ForwardArgs<CellBackwardAttrs>& args) {
  const LstmBackward b(args);
  const DType compute = common_compute(args);
  const LstmStepGradient found = composed_step_gradient(
      {composed_gradient(b.grad_h, b.c, compute), composed_gradient(b.grad_c, b.c, compute),
       composed_gradient(b.grad_gates, b.gates, compute)},
      to(b.gates, compute), to(b.c, compute), to(b.new_c, compute));
  return {to(found.sums, b.gates.dtype()), to(found.c, b.state_dtype)};
}

std::vector<Sample<CellBackwardAttrs>> lstm_backward_samples() {
  const SampleInput state = real({3, 2}), gates = real({3, 8}), open = real({3, 8}, 0.1, 0.9);
  return {{{state, state, gates, open, state, state}, {}},
          {{state, absent(), absent(), open, state, state}, {}},
          {{absent(), real({1, 3}), absent(), real({1, 12}), real({1, 3}), real({1, 3})}, {}}};
}
constexpr Op<CellBackwardAttrs> lstm_backward_op =
    gradient_op<CellBackwardAttrs>(kLstmBackward, lstm_backward_samples, lstm_backward_forward,
                                   lstm_backward_reference, tensor_set(0, 1, 2));
const Registered lstm_backward_registered{lstm_backward_op};

// --- lstm_cell. Inputs: x, h, c, w_ih, w_hh, b_ih, b_hh. Outputs: h', c', gates

constexpr std::string_view kLstm = "lstm_cell";

CellInputs checked_lstm(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = CellInputs::of(args, 2);
  require_cell(kLstm, cell, kLstmGates);
  const Tensor& c = args.in(2);
  require_sizes(kLstm, "c", c, {cell.batch(), cell.hidden()});
  static_cast<void>(product_dtype(kLstm, cell.x, c, {}));
  return cell;
}

Outputs lstm_forward(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked_lstm(args);
  const Shape& state = cell.h.shape();
  const TensorOptions options = options_of(cell.x);
  const Tensor sums = cell_product(cell.h, cell.w_hh, cell_product(cell.x, cell.w_ih));
  const LstmStep next{empty(state, options), empty(state, options),
                      sums.dtype() == cell.dtype() ? sums : empty(sums.shape(), options)};
  run_step(next, sums, args.in(2), cell);
  return {next.h, next.c, next.gates};
}

Outputs lstm_reference(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked_lstm(args);
  const DType compute = cell.compute(), dtype = cell.dtype();
  const LstmStep next = composed_step(composed_product(cell.x, cell.w_ih, cell.b_ih, compute) +
                                          composed_product(cell.h, cell.w_hh, cell.b_hh, compute),
                                      to(args.in(2), compute));
  return {to(next.h, dtype), to(next.c, dtype), to(next.gates, dtype)};
}

Gradients lstm_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensors found = bind(lstm_backward_op,
                             {grad_or_none(args, 0), grad_or_none(args, 1), grad_or_none(args, 2),
                              args.out(2), args.in(2), args.out(1)},
                             CellBackwardAttrs{args.wanted(2)});
  Gradients result(args.num_inputs());
  spread_product(args, result, found[0], {0, 3, 5});
  spread_product(args, result, found[0], {1, 4, 6});
  if (args.needs(2)) result[2] = found[1];
  return result;
}

std::vector<Sample<NoAttrs>> lstm_samples() { return cell_samples(kLstmGates, 2); }
constexpr Op<NoAttrs> lstm_op{
    .info = {.name = kLstm, .category = Category::lower_precision, .optional_inputs = tensor_set(5, 6)},
    .samples = lstm_samples,
    .forward = lstm_forward,
    .vjp = lstm_vjp,
    .saves = {tensor_set(0, 1, 2, 3, 4), tensor_set(1, 2)},
    .reference = lstm_reference,
};
const Registered lstm_registered{lstm_op};

// --- lstm_sequence_backward. Inputs: the gradients of output, cells and gates; gates, cells, c and w_hh.
// Outputs: the gradients of the sums that went into the gates of all steps, and of c.

constexpr std::string_view kLstmSequence = "lstm_sequence", kLstmSequenceBackward = "lstm_sequence_backward";

/// Inputs of the backward op, checked.
struct LstmSequenceBackward {
  explicit LstmSequenceBackward(const ForwardArgs<SequenceBackwardAttrs>& args)
      : grad{args.in(0), args.in(1), args.in(2)},
        gates(args.in(3)),
        cells(args.in(4)),
        c(args.in(5)),
        w_hh(args.in(6)),
        state_dtype(args.attrs.state_dtype.value_or(gates.dtype())) {
    constexpr std::string_view op = kLstmSequenceBackward;
    require_steps(op, "gates [L, N, 4 H]", gates);
    require_state(op, "c [N, H]", c);
    order = {gates.size(0), args.attrs.reverse};
    const std::int64_t length = order.length, n = c.size(0), hidden = c.size(1), rows = kLstmGates * hidden;
    require_sizes(op, "gates", gates, {length, n, rows});
    require_sizes(op, "cells", cells, {length, n, hidden});
    require_sizes(op, "w_hh", w_hh, {rows, hidden});
    if (grad.h.defined()) require_sizes(op, "the gradient of the output", grad.h, {length, n, hidden});
    if (grad.c.defined()) require_sizes(op, "the gradient of the cells", grad.c, {length, n, hidden});
    if (grad.gates.defined()) require_sizes(op, "the gradient of the gates", grad.gates, {length, n, rows});
  }
  /// The c that step k began with.
  [[nodiscard]] Tensor before(std::int64_t k) const { return k == 0 ? c : at(cells, order[k - 1]); }

  const LstmStep grad;  ///< of all steps
  const Tensor &gates, &cells, &c, &w_hh;
  DType state_dtype;
  Order order;
};

Outputs lstm_sequence_backward_forward(const ForwardArgs<SequenceBackwardAttrs>& args) {
  const LstmSequenceBackward b(args);
  const DType compute = common_compute(args);
  const TensorOptions options{.dtype = compute, .device = b.c.device()};
  const Tensor sums = empty(b.gates.shape(), options_of(b.gates));
  // Products are added to the gradient of the output, unrounded; the gradient of c stays where it is.
  const Tensor of_h = empty(b.cells.shape(), options), of_c = zeros(b.c.shape(), options);
  if (b.grad.h.defined())
    of_h.copy_(b.grad.h);
  else
    of_h.zero_();
  const Tensor weight = for_many_products(b.w_hh);
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    if (b.grad.c.defined()) of_c.add_(at(b.grad.c, t));
    const Tensor of_sums = at(sums, t);
    run_step_gradient({of_sums, of_c}, {at(of_h, t), of_c, at(b.grad.gates, t)}, at(b.gates, t), b.before(k),
                      at(b.cells, t), compute);
    if (k > 0) product_into(at(of_h, b.order[k - 1]), of_sums, weight, 1, 1);
  }
  return {sums, to(of_c, b.state_dtype)};
}

Outputs lstm_sequence_backward_reference(const ForwardArgs<SequenceBackwardAttrs>& args) {
  const LstmSequenceBackward b(args);
  const DType compute = common_compute(args), dtype = b.gates.dtype();
  const LstmStep grad{composed_gradient(b.grad.h, b.cells, compute),
                      composed_gradient(b.grad.c, b.cells, compute),
                      composed_gradient(b.grad.gates, b.gates, compute)};
  const Tensor weight = to(transpose(b.w_hh, 0, 1), compute);
  std::vector<Tensor> sums(static_cast<std::size_t>(b.order.length));
  Tensor of_c, of_h;  // from the steps after
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    const Tensor own_h = at(grad.h, t), own_c = at(grad.c, t);
    const LstmStep step{of_h.defined() ? own_h + of_h : own_h, of_c.defined() ? own_c + of_c : own_c,
                        at(grad.gates, t)};
    const LstmStepGradient found = composed_step_gradient(
        step, to(at(b.gates, t), compute), to(b.before(k), compute), to(at(b.cells, t), compute));
    Tensor& of_sums = sums[static_cast<std::size_t>(t)];
    of_sums = to(found.sums, dtype);
    of_h = linear(to(of_sums, compute), weight);
    of_c = found.c;
  }
  return {stack(sums), to(of_c, b.state_dtype)};
}

std::vector<Sample<SequenceBackwardAttrs>> lstm_sequence_backward_samples() {
  const SampleInput states = real({3, 2, 2}), gates = real({3, 2, 8}), open = real({3, 2, 8}, 0.1, 0.9),
                    weight = real({8, 2}, -1, 1);
  return {{{states, states, gates, open, states, real({2, 2}), weight}, {}},
          {{states, absent(), absent(), open, states, real({2, 2}), weight}, {.reverse = true}},
          {{absent(), real({1, 1, 3}), absent(), real({1, 1, 12}), real({1, 1, 3}), real({1, 3}),
            real({12, 3}, -1, 1)},
           {}}};
}
constexpr Op<SequenceBackwardAttrs> lstm_sequence_backward_op = gradient_op<SequenceBackwardAttrs>(
    kLstmSequenceBackward, lstm_sequence_backward_samples, lstm_sequence_backward_forward,
    lstm_sequence_backward_reference, tensor_set(0, 1, 2));
const Registered lstm_sequence_backward_registered{lstm_sequence_backward_op};

// --- lstm_sequence. Inputs: x, h, c, w_ih, w_hh, b_ih, b_hh. Outputs: h', c' and gates of all steps

CellInputs checked_lstm_sequence(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_sequence(kLstmSequence, CellInputs::of(args, 2), kLstmGates);
  require_sizes(kLstmSequence, "c", args.in(2), cell.h.shape());
  static_cast<void>(product_dtype(kLstmSequence, cell.x, args.in(2), {}));
  return cell;
}

Outputs lstm_sequence_forward(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_lstm_sequence(args);
  const Order order{cell.x.size(0), args.attrs.reverse};
  const TensorOptions options = options_of(cell.x);
  const Shape states{order.length, cell.batch(), cell.hidden()};
  const Tensor sums = reshape(cell_product(as_rows(cell.x), cell.w_ih),
                              {order.length, cell.batch(), kLstmGates * cell.hidden()});
  const LstmStep all{empty(states, options), empty(states, options),
                     sums.dtype() == cell.dtype() ? sums : empty(sums.shape(), options)};
  const Tensor weight = for_many_products(transpose(cell.w_hh, 0, 1));
  Tensor h = cell.h, c = args.in(2);
  for (std::int64_t k = 0; k < order.length; ++k) {
    const std::int64_t t = order[k];
    const LstmStep next{at(all.h, t), at(all.c, t), at(all.gates, t)};
    const Tensor own = at(sums, t);
    product_into(own, h, weight, 1, 1);
    run_step(next, own, c, cell);
    h = next.h, c = next.c;
  }
  return {all.h, all.c, all.gates};
}

Outputs lstm_sequence_reference(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_lstm_sequence(args);
  const Order order{cell.x.size(0), args.attrs.reverse};
  const DType compute = cell.compute(), dtype = cell.dtype();
  std::array<std::vector<Tensor>, 3> found;
  for (std::vector<Tensor>& steps : found) steps.resize(static_cast<std::size_t>(order.length));
  Tensor h = cell.h, c = args.in(2);
  for (std::int64_t k = 0; k < order.length; ++k) {
    const std::int64_t t = order[k];
    const LstmStep next = composed_step(composed_product(at(cell.x, t), cell.w_ih, cell.b_ih, compute) +
                                            composed_product(h, cell.w_hh, cell.b_hh, compute),
                                        to(c, compute));
    h = to(next.h, dtype), c = to(next.c, dtype);
    const auto place = static_cast<std::size_t>(t);
    found[0][place] = h, found[1][place] = c, found[2][place] = to(next.gates, dtype);
  }
  return {stack(found[0]), stack(found[1]), stack(found[2])};
}

Gradients lstm_sequence_vjp(const VjpArgs<SequenceAttrs>& args) {
  const Order order{args.in_shape(0)[0], args.attrs.reverse};
  const Tensors found = bind(lstm_sequence_backward_op,
                             {grad_or_none(args, 0), grad_or_none(args, 1), grad_or_none(args, 2),
                              args.out(2), args.out(1), args.in(2), args.in(4)},
                             SequenceBackwardAttrs{order.reverse, args.wanted(2)});
  Gradients result(args.num_inputs());
  spread_steps(args, result, found[0], {0, 3, 5});
  if (args.needs(1)) result[1] = matmul(at(found[0], order[0]), args.in(4), args.wanted(1));
  const Tensor before = states_before(order, args.in(1), args.out(0));
  spread_weights(args, result, as_rows(found[0]), as_rows(before), 4, 6);
  if (args.needs(2)) result[2] = found[1];
  return result;
}

std::vector<Sample<SequenceAttrs>> lstm_sequence_samples() { return sequence_samples(kLstmGates, 2); }
constexpr Op<SequenceAttrs> lstm_sequence_op{
    .info = sequence_info(kLstmSequence, 2),
    .samples = lstm_sequence_samples,
    .forward = lstm_sequence_forward,
    .vjp = lstm_sequence_vjp,
    .saves = {tensor_set(0, 1, 2, 3, 4), tensor_set(0, 1, 2)},
    .reference = lstm_sequence_reference,
};
const Registered lstm_sequence_registered{lstm_sequence_op};

}  // namespace

LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                    const Tensor& b_ih, const Tensor& b_hh) {
  const Outputs outputs = call_cell(lstm_op, {x, state.h, state.c, w_ih, w_hh, b_ih, b_hh}, 2);
  return {outputs[0], outputs[1]};
}

LstmSequence lstm_sequence(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                           const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  const Outputs outputs =
      bind(lstm_sequence_op, {x, state.h, state.c, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
  const std::int64_t last = Order{x.size(0), reverse}.last();
  return {outputs[0], {at(outputs[0], last), at(outputs[1], last)}, outputs[1]};
}

}  // namespace mezzo
