// The three ops of a recurrent cell: one step, all steps of a sequence, and the part of the gradient of both
// that is no product over all steps. A cell is a type with
//   kName, kSequence, kBackward: names of the ops,
//   kGates: gates in a row of the weights' products; kKept: those that backward reads, as an output of their
//     own (0: it reads h' alone),
//   kHasC: whether a state is h and c; kSeparate: whether h's product stands apart from x's, and h also goes
//     straight into h',
//   step(to, of_x, of_h, from, cell): one step, given its products (x's has h's in it unless they are apart),
//     whose memory `to.gates` may be (h' of a cell without),
//   step_gradient(to, grad, later, gates, before, now, compute): its gradient, given those of its results by
//     themselves and through later steps; `before` and `now`: the state c (kHasC) or h before and after it.
//     `to.state` may be in the memory of `later`,
//   composed_step: the step in plain ops, in the dtype of its arguments.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/recurrent/common.h"

namespace mezzo::ops {

template <class Cell>
inline constexpr std::size_t kCellStates = Cell::kHasC ? 2 : 1;
template <class Cell>
inline constexpr std::size_t kCellOutputs = kCellStates<Cell> + (Cell::kKept > 0 ? 1 : 0);
/// Which output is the state that a step's gradient reads.
template <class Cell>
inline constexpr std::size_t kCellCarried = Cell::kHasC ? 1 : 0;

/// Outputs of a forward: h' and, where the cell has them, c' and the gates.
[[nodiscard]] inline Outputs outputs_of(const CellStep& steps) {
  Outputs outputs(steps.h);
  for (const Tensor* tensor : {&steps.c, &steps.gates}) {
    if (tensor->defined()) outputs.push_back(*tensor);
  }
  return outputs;
}

// --- forward. Inputs: x, h, c if the cell has it, w_ih, w_hh, b_ih, b_hh; A: NoAttrs for one step.

template <class Cell, class A>
[[nodiscard]] CellInputs checked_cell(const ForwardArgs<A>& args) {
  constexpr bool kOneStep = std::is_same_v<A, NoAttrs>;
  constexpr std::string_view kName = kOneStep ? Cell::kName : Cell::kSequence;
  const CellInputs cell = CellInputs::of(args, kCellStates<Cell>);
  (kOneStep ? require_cell : require_cell_of_sequence)(kName, cell, Cell::kGates);
  if constexpr (Cell::kHasC) {
    require_sizes(kName, "c", args.in(2), cell.h.shape());
    static_cast<void>(product_dtype(kName, cell.x, args.in(2), {}));
  }
  return cell;
}

template <class Cell, class A>
[[nodiscard]] CellStep first_state(const ForwardArgs<A>& args) {
  return {args.in(1), Cell::kHasC ? args.in(2) : Tensor(), {}};
}

template <class A>
[[nodiscard]] bool is_reversed(const A& attrs) {
  if constexpr (std::is_same_v<A, NoAttrs>)
    return false;
  else
    return attrs.reverse;
}

template <class Cell, class A>
Outputs cell_forward(const ForwardArgs<A>& args) {
  const CellInputs cell = checked_cell<Cell>(args);
  const Order order = order_of(cell.x.shape(), is_reversed(args.attrs));
  const TensorOptions options = options_of(cell.x);
  const Tensor of_x = product_of_steps(cell.x, cell.w_ih);
  const bool in_place = !Cell::kSeparate && of_x.dtype() == cell.dtype();
  const auto make = [&](std::int64_t columns) {
    return empty(with_columns(cell.x.shape(), columns), options);
  };
  CellStep all;
  all.h = in_place && Cell::kKept == 0 ? of_x : make(cell.hidden());
  if (Cell::kHasC) all.c = make(cell.hidden());
  if (Cell::kKept > 0) all.gates = in_place ? of_x : make(Cell::kKept * cell.hidden());

  const Tensor weight = for_products(transpose(cell.w_hh, 0, 1), order.length);
  const Tensor of_h =
      Cell::kSeparate ? empty({cell.batch(), Cell::kGates * cell.hidden()}, options_of(of_x)) : Tensor();
  CellStep state = first_state<Cell>(args);
  for (std::int64_t k = 0; k < order.length; ++k) {
    const CellStep next = at(all, order[k]);
    const Tensor own = at(of_x, order[k]);
    product_into(Cell::kSeparate ? of_h : own, state.h, weight, 1, Cell::kSeparate ? 0 : 1);
    Cell::step(next, own, of_h, state, cell);
    state = next;
  }
  return outputs_of(all);
}

template <class Cell, class A>
Outputs cell_reference(const ForwardArgs<A>& args) {
  const CellInputs cell = checked_cell<Cell>(args);
  const Order order = order_of(cell.x.shape(), is_reversed(args.attrs));
  const DType compute = cell.compute(), dtype = cell.dtype();
  std::vector<std::vector<Tensor>> found(kCellOutputs<Cell>);
  for (std::vector<Tensor>& steps : found) steps.resize(static_cast<std::size_t>(order.length));
  CellStep state = first_state<Cell>(args);
  for (std::int64_t k = 0; k < order.length; ++k) {
    const CellStep next =
        Cell::composed_step(composed_product(at(cell.x, order[k]), cell.w_ih, cell.b_ih, compute),
                            composed_product(state.h, cell.w_hh, cell.b_hh, compute),
                            {to(state.h, compute), in_dtype(state.c, compute), {}});
    state = {to(next.h, dtype), in_dtype(next.c, dtype), in_dtype(next.gates, dtype)};
    const Outputs outputs = outputs_of(state);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      found[i][static_cast<std::size_t>(order[k])] = outputs[i];
  }
  Outputs outputs;
  for (const std::vector<Tensor>& steps : found)
    outputs.push_back(stacked(steps, is_sequence(cell.x.shape())));
  return outputs;
}

// --- backward. Inputs: the gradients of the outputs; the gates if the cell keeps them; the states (c or h)
// after each step; the first of them if the cell keeps gates; w_hh. Outputs: the gradients of x's product
// and, where that one stands apart, of h's, at all steps; and of the first h and c, unrounded.

/// Inputs of the backward op, checked.
template <class Cell>
struct CellBackward {
  explicit CellBackward(const ForwardArgs<SequenceAttrs>& args) {
    constexpr std::string_view op = Cell::kBackward;
    std::size_t i = 0;
    const auto next = [&](bool has) { return has ? args.in(i++) : Tensor(); };
    grad = {next(true), next(Cell::kHasC), next(Cell::kKept > 0)};
    gates = next(Cell::kKept > 0), states = next(true), first = next(Cell::kKept > 0), w_hh = next(true);
    require_floating(op, states);
    if ((states.dim() != 2 && states.dim() != 3) || (states.dim() == 3 && states.size(0) == 0)) {
      throw ShapeError(op, "states [N, H], or [L, N, H] with at least one step", to_string(states.shape()),
                       "pass the states that forward returned");
    }
    order = order_of(states.shape(), args.attrs.reverse);
    const std::int64_t hidden = states.size(-1);
    const Shape kept = with_columns(states.shape(), Cell::kKept * hidden);
    if (gates.defined()) require_sizes(op, "gates", gates, kept);
    if (first.defined()) require_sizes(op, "the first state", first, state_shape());
    require_sizes(op, "w_hh", w_hh, {Cell::kGates * hidden, hidden});
    if (grad.h.defined()) require_sizes(op, "the gradient of h'", grad.h, states.shape());
    if (grad.c.defined()) require_sizes(op, "the gradient of c'", grad.c, states.shape());
    if (grad.gates.defined()) require_sizes(op, "the gradient of the gates", grad.gates, kept);
  }
  [[nodiscard]] Shape state_shape() const { return {states.size(-2), states.size(-1)}; }
  /// The state that step k began with; undefined of a cell that keeps no gates, which does not read it.
  [[nodiscard]] Tensor before(std::int64_t k) const {
    return k == 0 || !first.defined() ? first : at(states, order[k - 1]);
  }

  CellStep grad;
  Tensor gates, states, first, w_hh;
  Order order;
};

/// Outputs of the backward op.
template <class Cell>
[[nodiscard]] Outputs backward_outputs(Tensor of_x, Tensor of_h, const CellStep& first) {
  Outputs outputs(std::move(of_x));
  if (Cell::kSeparate) outputs.push_back(std::move(of_h));
  outputs.push_back(first.h);
  if (Cell::kHasC) outputs.push_back(first.c);
  return outputs;
}

template <class Cell>
Outputs cell_backward_forward(const ForwardArgs<SequenceAttrs>& args) {
  const CellBackward<Cell> b(args);
  const DType compute = common_compute(args);
  const Shape products = with_columns(b.states.shape(), Cell::kGates * b.states.size(-1));
  const auto make_products = [&] { return empty(products, options_of(b.states)); };
  const auto make_state = [&] {
    return empty(b.state_shape(), {.dtype = compute, .device = b.states.device()});
  };
  const Tensor of_x = make_products(), of_h = Cell::kSeparate ? make_products() : Tensor();
  // The gradients of the states between two steps stay where they are, unrounded.
  const CellStep of_state{make_state(), Cell::kHasC ? make_state() : Tensor(), {}};
  const Tensor weight = for_products(b.w_hh, b.order.length);
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    const CellStepGradient to{at(of_x, t), at(of_h, t),
                              Cell::kHasC       ? of_state.c
                              : Cell::kSeparate ? of_state.h
                                                : Tensor()};
    Cell::step_gradient(to, at(b.grad, t), k + 1 < b.order.length ? of_state : CellStep{}, at(b.gates, t),
                        b.before(k), at(b.states, t), compute);
    product_into(of_state.h, Cell::kSeparate ? to.of_h : to.of_x, weight, 1, Cell::kSeparate ? 1 : 0);
  }
  return backward_outputs<Cell>(of_x, of_h, of_state);
}

template <class Cell>
std::vector<Sample<SequenceAttrs>> cell_backward_samples() {
  using op_samples::absent;
  using op_samples::real;
  const auto sample = [](const Shape& states, bool reverse, std::size_t without) {
    const std::int64_t hidden = states.back();
    const Shape gates = with_columns(states, Cell::kKept * hidden);
    Sample<SequenceAttrs> result{{}, {reverse}};
    for (std::size_t i = 0; i < kCellOutputs<Cell>; ++i)
      result.inputs.push_back(i == without ? absent() : real(i < kCellStates<Cell> ? states : gates));
    if (Cell::kKept > 0) result.inputs.push_back(real(gates, 0.1, 0.9));
    result.inputs.push_back(real(states, 0.1, 0.9));
    if (Cell::kKept > 0) result.inputs.push_back(real({states[states.size() - 2], hidden}));
    result.inputs.push_back(real({Cell::kGates * hidden, hidden}, -1, 1));
    return result;
  };
  constexpr std::size_t kLast = kCellOutputs<Cell> - 1;
  return {sample({3, 2, 2}, false, kLast + 1), sample({3, 2, 2}, true, kLast > 0 ? kLast : 1),
          sample({1, 1, 3}, false, kLast > 0 ? 0 : 1), sample({3, 2}, false, kLast > 0 ? kLast - 1 : 1)};
}

template <class Cell>
inline constexpr Op<SequenceAttrs> kCellBackwardOp = {
    .info = {.name = Cell::kBackward,
             .category = Category::passthrough,
             .optional_inputs = (1U << kCellOutputs<Cell>)-1,
             .opt_out = {.low_precision = "rounds the gradients of products between its steps, as a loop of "
                                          "cells does: a test compares the two"}},
    .samples = cell_backward_samples<Cell>,
    .forward = cell_backward_forward<Cell>,
    .vjp = NotDifferentiable{"where a second gradient may follow, the first is the composition's"},
    .saves = kSaveNothing,
};

// --- the two ops

template <class Cell, class A>
Gradients cell_vjp(const VjpArgs<A>& args) {
  if (grad_enabled()) return decomposed(args);            // the composition can be differentiated again
  constexpr std::size_t kWeight = kCellStates<Cell> + 1;  // of x; that of h and both biases follow
  const bool sequence = is_sequence(args.in_shape(0));
  const Order order = order_of(args.in_shape(0), is_reversed(args.attrs));
  Tensors inputs;
  for (std::size_t i = 0; i < kCellOutputs<Cell>; ++i)
    inputs.push_back(args.has_grad(i) ? args.grad(i) : Tensor());
  if (Cell::kKept > 0) inputs.push_back(args.out(kCellOutputs<Cell> - 1));
  // A single step of a cell without c reads the first state alone.
  const bool has_states = sequence || Cell::kHasC || Cell::kKept == 0;
  inputs.push_back(has_states ? args.out(kCellCarried<Cell>) : args.in(1));
  if (Cell::kKept > 0) inputs.push_back(args.in(kCellStates<Cell>));
  inputs.push_back(args.in(kWeight + 1));
  const SmallVector<TensorRef, 8> refs(inputs.begin(), inputs.end());
  const Tensors found = bind(kCellBackwardOp<Cell>, Inputs(refs), SequenceAttrs{order.reverse});

  Gradients result(args.num_inputs());
  const Tensor of_x = as_rows(found[0]);
  if (args.needs(0)) {
    const Tensor rows = matmul(of_x, args.in(kWeight), args.wanted(0));
    result[0] = sequence ? reshape(rows, args.in_shape(0)) : rows;
  }
  spread_weights(args, result, of_x, as_rows(args.in(0)), kWeight, kWeight + 2);
  if (args.needs(kWeight + 1) || args.needs(kWeight + 3)) {
    const Tensor before = sequence ? as_rows(states_before(order, args.in(1), args.out(0))) : args.in(1);
    spread_weights(args, result, Cell::kSeparate ? as_rows(found[1]) : of_x, before, kWeight + 1,
                   kWeight + 3);
  }
  for (std::size_t s = 0; s < kCellStates<Cell>; ++s) {
    if (args.needs(1 + s)) result[1 + s] = found[(Cell::kSeparate ? 2 : 1) + s];
  }
  return result;
}

/// Inputs and outputs that a vjp reads: of a single step h' only where it is the state that its gradient
/// reads.
template <class Cell>
[[nodiscard]] constexpr Saves cell_saves(bool sequence) {
  const std::uint32_t outputs = (1U << kCellOutputs<Cell>)-1;
  return {~0U, sequence || Cell::kKept == 0 ? outputs : outputs & ~1U};
}
template <class Cell>
[[nodiscard]] constexpr std::uint32_t biases() {
  return tensor_set(kCellStates<Cell> + 3, kCellStates<Cell> + 4);
}

template <class Cell>
std::vector<Sample<NoAttrs>> cell_samples() {
  const auto sample = [](std::int64_t n, std::int64_t features, std::int64_t hidden, bool with_biases) {
    return Sample<NoAttrs>{cell_sample(Cell::kGates, kCellStates<Cell>, 0, n, features, hidden, with_biases)};
  };
  return {sample(3, 4, 5, true), sample(2, 3, 2, false), sample(1, 1, 1, true), sample(0, 2, 3, true)};
}
template <class Cell>
std::vector<Sample<SequenceAttrs>> sequence_samples() {
  const auto sample = [](std::int64_t length, std::int64_t n, std::int64_t features, std::int64_t hidden,
                         bool with_biases, bool reverse) {
    return Sample<SequenceAttrs>{
        cell_sample(Cell::kGates, kCellStates<Cell>, length, n, features, hidden, with_biases), {reverse}};
  };
  return {sample(3, 2, 3, 2, true, false), sample(2, 3, 1, 3, false, true), sample(1, 1, 2, 1, true, true),
          sample(2, 0, 2, 3, true, false)};
}

/// One step.
template <class Cell>
inline constexpr Op<NoAttrs> kCellOp = {
    .info = {.name = Cell::kName, .category = Category::lower_precision, .optional_inputs = biases<Cell>()},
    .samples = cell_samples<Cell>,
    .forward = cell_forward<Cell, NoAttrs>,
    .vjp = cell_vjp<Cell, NoAttrs>,
    .saves = cell_saves<Cell>(false),
    .reference = cell_reference<Cell, NoAttrs>,
};

/// All steps of a sequence.
template <class Cell>
inline constexpr Op<SequenceAttrs> kCellSequenceOp = {
    .info = {.name = Cell::kSequence,
             .category = Category::lower_precision,
             .optional_inputs = biases<Cell>(),
             .opt_out = {.low_precision =
                             "rounds between its steps, as its cell does: a test compares the two"}},
    .samples = sequence_samples<Cell>,
    .forward = cell_forward<Cell, SequenceAttrs>,
    .vjp = cell_vjp<Cell, SequenceAttrs>,
    .saves = cell_saves<Cell>(true),
    .reference = cell_reference<Cell, SequenceAttrs>,
};

/// Registers the three ops of a cell.
template <class Cell>
struct RegisteredCell {
  Registered backward{kCellBackwardOp<Cell>}, step{kCellOp<Cell>}, sequence{kCellSequenceOp<Cell>};
};

}  // namespace mezzo::ops
