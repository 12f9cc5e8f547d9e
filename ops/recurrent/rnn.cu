// rnn_tanh_cell and rnn_relu_cell, a product and one nonlinearity; both over all steps of a sequence; and the
// part of a sequence's gradient that is no product over all steps as an op of its own.
#include <vector>

#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/sequence.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::Numbers;
using op_samples::real;
using Args = ForwardArgs<NoAttrs>;

/// h' = act(pre + b_ih + b_hh). Inputs: pre, b_ih, b_hh. Results: h'.
template <class Activation>
struct RnnCellFn {
  static constexpr std::size_t kInputs = 3, kResults = 1;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    return {{Activation{}(x.at[0] + (x.at[1] + x.at[2]))}};
  }
};

/// The gradient of the sum before the nonlinearity. Inputs: the gradient of h', and h'.
template <class Backward>
struct RnnCellBackwardFn {
  static constexpr std::size_t kInputs = 2, kResults = 1;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    return {{Backward{}(x.at[0], x.at[1])}};
  }
};

/// The two kinds of a plain cell.
struct TanhKind {
  static constexpr std::string_view kName = "rnn_tanh_cell", kSequence = "rnn_tanh_sequence",
                                    kSequenceBackward = "rnn_tanh_sequence_backward";
  using Function = kernels::scalar::TanhFn;
  using Backward = kernels::scalar::TanhBackwardFn;
  static Tensor apply(const Tensor& x) { return tanh(x); }
  static Tensor gradient(const Tensor& grad, const Tensor& out) { return tanh_backward(grad, out); }
};
struct ReluKind {
  static constexpr std::string_view kName = "rnn_relu_cell", kSequence = "rnn_relu_sequence",
                                    kSequenceBackward = "rnn_relu_sequence_backward";
  using Function = kernels::scalar::ReluFn;
  using Backward = kernels::scalar::ReluBackwardFn;
  static Tensor apply(const Tensor& x) { return relu(x); }
  static Tensor gradient(const Tensor& grad, const Tensor& out) { return relu_backward(grad, out); }
};

/// Writes h', given the sum of both products, which may be in the same memory.
template <class Kind>
void run_step(const Tensor& to, const Tensor& sums, const CellInputs& cell) {
  const Shape& state = cell.h.shape();
  kernels::cell_map(to.device(), RnnCellFn<typename Kind::Function>{}, {view_of(to)},
                    {view_of(sums), gate_view(cell.b_ih, 0, state), gate_view(cell.b_hh, 0, state)},
                    cell.compute());
}
/// h' in plain ops, in the dtype that is computed in.
template <class Kind>
Tensor composed_step(const Tensor& x, const Tensor& h, const CellInputs& cell) {
  const DType compute = cell.compute();
  return Kind::apply(composed_product(x, cell.w_ih, cell.b_ih, compute) +
                     composed_product(h, cell.w_hh, cell.b_hh, compute));
}

// --- rnn_tanh_cell, rnn_relu_cell. Inputs: x, h, w_ih, w_hh, b_ih, b_hh. Output: h'

template <class Kind>
Outputs rnn_forward(const Args& args) {
  const CellInputs cell = CellInputs::of(args, 1);
  require_cell(Kind::kName, cell, 1);
  const Tensor sums = cell_product(cell.h, cell.w_hh, cell_product(cell.x, cell.w_ih));
  const Tensor out = sums.dtype() == cell.dtype() ? sums : empty(sums.shape(), options_of(cell.x));
  run_step<Kind>(out, sums, cell);
  return out;
}

template <class Kind>
Outputs rnn_reference(const Args& args) {
  const CellInputs cell = CellInputs::of(args, 1);
  require_cell(Kind::kName, cell, 1);
  return to(composed_step<Kind>(cell.x, cell.h, cell), cell.dtype());
}

template <class Kind>
Gradients rnn_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensor grad = Kind::gradient(args.grad(), args.out());
  Gradients result(args.num_inputs());
  spread_product(args, result, grad, {0, 2, 4});
  spread_product(args, result, grad, {1, 3, 5});
  return result;
}

std::vector<Sample<NoAttrs>> rnn_samples() { return cell_samples(1, 1); }

template <class Kind>
constexpr Op<NoAttrs> kCellOp = [] {
  return Op<NoAttrs>{
      .info = {.name = Kind::kName,
               .category = Category::lower_precision,
               .optional_inputs = tensor_set(4, 5)},
      .samples = rnn_samples,
      .forward = rnn_forward<Kind>,
      .vjp = rnn_vjp<Kind>,
      .saves = {tensor_set(0, 1, 2, 3), tensor_set(0)},
      .reference = rnn_reference<Kind>,
  };
}();
const Registered rnn_tanh_registered{kCellOp<TanhKind>};
const Registered rnn_relu_registered{kCellOp<ReluKind>};

// --- rnn_tanh_sequence_backward, rnn_relu_sequence_backward. Inputs: the gradient of output; output and
// w_hh. Output: the gradient of the sums of both products at all steps

/// Inputs of the backward op, checked.
struct RnnSequenceBackward {
  RnnSequenceBackward(std::string_view op, const ForwardArgs<SequenceAttrs>& args)
      : grad(args.in(0)), output(args.in(1)), w_hh(args.in(2)) {
    require_steps(op, "output [L, N, H]", output);
    require_sizes(op, "the gradient of the output", grad, output.shape());
    require_sizes(op, "w_hh", w_hh, {output.size(2), output.size(2)});
    order = {output.size(0), args.attrs.reverse};
  }
  const Tensor &grad, &output, &w_hh;
  Order order;
};

template <class Kind>
Outputs rnn_sequence_backward_forward(const ForwardArgs<SequenceAttrs>& args) {
  const RnnSequenceBackward b(Kind::kSequenceBackward, args);
  const DType compute = common_compute(args);
  const Tensor sums = empty(b.output.shape(), options_of(b.output));
  // Products are added to the gradient of the output, unrounded.
  const Tensor of_h = empty(sums.shape(), {.dtype = compute, .device = sums.device()});
  of_h.copy_(b.grad);
  const Tensor weight = for_many_products(b.w_hh);
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    const Tensor of_sums = at(sums, t);
    kernels::cell_map(sums.device(), RnnCellBackwardFn<typename Kind::Backward>{}, {view_of(of_sums)},
                      {view_of(at(of_h, t)), view_of(at(b.output, t))}, compute);
    if (k > 0) product_into(at(of_h, b.order[k - 1]), of_sums, weight, 1, 1);
  }
  return sums;
}

template <class Kind>
Outputs rnn_sequence_backward_reference(const ForwardArgs<SequenceAttrs>& args) {
  const RnnSequenceBackward b(Kind::kSequenceBackward, args);
  const DType compute = common_compute(args), dtype = b.output.dtype();
  const Tensor weight = to(transpose(b.w_hh, 0, 1), compute);
  std::vector<Tensor> sums(static_cast<std::size_t>(b.order.length));
  Tensor of_h;  // from the steps after
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    const Tensor own = to(at(b.grad, t), compute);
    Tensor& of_sums = sums[static_cast<std::size_t>(t)];
    of_sums = to(Kind::gradient(of_h.defined() ? own + of_h : own, to(at(b.output, t), compute)), dtype);
    of_h = linear(to(of_sums, compute), weight);
  }
  return stack(sums);
}

std::vector<Sample<SequenceAttrs>> rnn_sequence_backward_samples() {
  const SampleInput states = real({3, 2, 2}), open = real({3, 2, 2}, 0.1, 0.9), weight = real({2, 2}, -1, 1);
  return {{{states, open, weight}, {}}, {{states, open, weight}, {.reverse = true}}};
}
template <class Kind>
constexpr Op<SequenceAttrs> kSequenceBackwardOp = rounding_between_steps(
    gradient_op<SequenceAttrs>(Kind::kSequenceBackward, rnn_sequence_backward_samples,
                               rnn_sequence_backward_forward<Kind>, rnn_sequence_backward_reference<Kind>));
const Registered rnn_tanh_sequence_backward_registered{kSequenceBackwardOp<TanhKind>};
const Registered rnn_relu_sequence_backward_registered{kSequenceBackwardOp<ReluKind>};

// --- rnn_tanh_sequence, rnn_relu_sequence. Inputs: x, h, w_ih, w_hh, b_ih, b_hh. Output: h' of all steps

template <class Kind>
Outputs rnn_sequence_forward(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_sequence(Kind::kSequence, CellInputs::of(args, 1), 1);
  const Order order{cell.x.size(0), args.attrs.reverse};
  const Shape states{order.length, cell.batch(), cell.hidden()};
  const Tensor sums = reshape(cell_product(as_rows(cell.x), cell.w_ih), states);
  const Tensor all = sums.dtype() == cell.dtype() ? sums : empty(states, options_of(cell.x));
  const Tensor weight = for_many_products(transpose(cell.w_hh, 0, 1));
  Tensor h = cell.h;
  for (std::int64_t k = 0; k < order.length; ++k) {
    const Tensor next = at(all, order[k]), own = at(sums, order[k]);
    product_into(own, h, weight, 1, 1);
    run_step<Kind>(next, own, cell);
    h = next;
  }
  return all;
}

template <class Kind>
Outputs rnn_sequence_reference(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_sequence(Kind::kSequence, CellInputs::of(args, 1), 1);
  const Order order{cell.x.size(0), args.attrs.reverse};
  std::vector<Tensor> found(static_cast<std::size_t>(order.length));
  Tensor h = cell.h;
  for (std::int64_t k = 0; k < order.length; ++k) {
    h = to(composed_step<Kind>(at(cell.x, order[k]), h, cell), cell.dtype());
    found[static_cast<std::size_t>(order[k])] = h;
  }
  return stack(found);
}

template <class Kind>
Gradients rnn_sequence_vjp(const VjpArgs<SequenceAttrs>& args) {
  const Order order{args.in_shape(0)[0], args.attrs.reverse};
  const Tensor sums =
      bind(kSequenceBackwardOp<Kind>, {args.grad(), args.out(), args.in(3)}, SequenceAttrs{order.reverse});
  Gradients result(args.num_inputs());
  spread_steps(args, result, sums, {0, 2, 4});
  const Tensor before = states_before(order, args.in(1), args.out());
  spread_weights(args, result, as_rows(sums), as_rows(before), 3, 5);
  if (args.needs(1)) result[1] = matmul(at(sums, order[0]), args.in(3), args.wanted(1));
  return result;
}

std::vector<Sample<SequenceAttrs>> rnn_sequence_samples() { return sequence_samples(1, 1); }

template <class Kind>
constexpr Op<SequenceAttrs> kSequenceOp = [] {
  return Op<SequenceAttrs>{
      .info = sequence_info(Kind::kSequence, 1),
      .samples = rnn_sequence_samples,
      .forward = rnn_sequence_forward<Kind>,
      .vjp = rnn_sequence_vjp<Kind>,
      .saves = {tensor_set(0, 1, 2, 3), tensor_set(0)},
      .reference = rnn_sequence_reference<Kind>,
  };
}();
const Registered rnn_tanh_sequence_registered{kSequenceOp<TanhKind>};
const Registered rnn_relu_sequence_registered{kSequenceOp<ReluKind>};

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<TanhKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<ReluKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}

Tensor rnn_tanh_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                         const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(kSequenceOp<TanhKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
}
Tensor rnn_relu_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                         const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(kSequenceOp<ReluKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
}

}  // namespace mezzo
