// gru_cell and gru_sequence, and the part of their gradients that is no product over all steps as ops of
// their own.
#include <array>
#include <vector>

#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/sequence.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::absent;
using op_samples::real;

constexpr std::int64_t kGruGates = 3;
constexpr std::int64_t kKept = 4;  ///< r, z, n and m, the product of h in n

// --- scalar math

namespace math = kernels::math;
using kernels::Numbers;
using kernels::scalar::SigmoidBackwardFn;
using kernels::scalar::TanhBackwardFn;

/// Inputs: the products of x for the gates r, z, n, the products of h, b_ih and b_hh likewise, and h.
/// Results: r, z, n and the part m of n that r scales, and h' = (1 - z) n + z h, where n = tanh(.. + r m).
struct GruCellFn {
  static constexpr std::size_t kInputs = 13, kResults = 5;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T r = math::sigmoid((x.at[0] + x.at[6]) + (x.at[3] + x.at[9]));
    const T z = math::sigmoid((x.at[1] + x.at[7]) + (x.at[4] + x.at[10]));
    const T m = x.at[5] + x.at[11];
    const T n = math::tanh((x.at[2] + x.at[8]) + r * m);
    return {{r, z, n, m, n + z * (x.at[12] - n)}};
  }
};

/// Inputs: the gradients of h' and of r, z, n, m; then r, z, n, m and h. Results: the gradients of x's three
/// products, of h's, and of the h that is mixed in.
struct GruCellBackwardFn {
  static constexpr std::size_t kInputs = 10, kResults = 7;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T grad = x.at[0], r = x.at[5], z = x.at[6], n = x.at[7], m = x.at[8];
    const T of_n = TanhBackwardFn{}(x.at[3] + grad * (T(1) - z), n);
    const T of_r = SigmoidBackwardFn{}(x.at[1] + of_n * m, r);
    const T of_z = SigmoidBackwardFn{}(x.at[2] + grad * (x.at[9] - n), z);
    return {{of_r, of_z, of_n, of_r, of_z, x.at[4] + of_n * r, grad * z}};
  }
};

// --- one step, without the products

/// Results of a step, and the gradients of its products and of the h that is mixed in.
struct GruStep {
  Tensor h, gates;
};
struct GruStepGradient {
  Tensor of_x, of_h, mixed;
};

/// Writes `to`, given the products of x and of h.
void run_step(const GruStep& to, const Tensor& of_x, const Tensor& of_h, const Tensor& h,
              const CellInputs& cell) {
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, h.shape()); };
  kernels::cell_map(
      to.h.device(), GruCellFn{},
      {gate(to.gates, 0), gate(to.gates, 1), gate(to.gates, 2), gate(to.gates, 3), view_of(to.h)},
      {gate(of_x, 0), gate(of_x, 1), gate(of_x, 2), gate(of_h, 0), gate(of_h, 1), gate(of_h, 2),
       gate(cell.b_ih, 0), gate(cell.b_ih, 1), gate(cell.b_ih, 2), gate(cell.b_hh, 0), gate(cell.b_hh, 1),
       gate(cell.b_hh, 2), view_of(h)},
      cell.compute());
}

/// Writes `to`, given the gradients of a step's results, undefined for none, its gates and the h it began
/// with. `mixed` may be in the memory of the gradient of h'.
void run_step_gradient(const GruStepGradient& to, const GruStep& grad, const Tensor& gates, const Tensor& h,
                       DType compute) {
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, h.shape()); };
  kernels::cell_map(
      h.device(), GruCellBackwardFn{},
      {gate(to.of_x, 0), gate(to.of_x, 1), gate(to.of_x, 2), gate(to.of_h, 0), gate(to.of_h, 1),
       gate(to.of_h, 2), view_of(to.mixed)},
      {state_view(grad.h), gate(grad.gates, 0), gate(grad.gates, 1), gate(grad.gates, 2), gate(grad.gates, 3),
       gate(gates, 0), gate(gates, 1), gate(gates, 2), gate(gates, 3), view_of(h)},
      compute);
}

/// run_step and run_step_gradient in plain ops, in the dtype of their arguments.
GruStep composed_step(const Tensor& of_x, const Tensor& of_h, const Tensor& h) {
  const Tensors x = composed_gates(of_x, kGruGates), m = composed_gates(of_h, kGruGates);
  const Tensor r = sigmoid(x[0] + m[0]), z = sigmoid(x[1] + m[1]), n = tanh(x[2] + r * m[2]);
  return {(1 - z) * n + z * h, cat({r, z, n, m[2]}, 1)};
}
GruStepGradient composed_step_gradient(const GruStep& grad, const Tensor& gates, const Tensor& h) {
  const Tensors gate = composed_gates(gates, kKept), own = composed_gates(grad.gates, kKept);
  const Tensor &r = gate[0], &z = gate[1], &n = gate[2], &m = gate[3];
  // A statement for each operand, as the compiler chooses the order of an operator's: see kl_div (ops/loss).
  const Tensor slope_n = 1 - n * n, of_n = (own[2] + grad.h * (1 - z)) * slope_n;
  const Tensor slope_r = 1 - r, of_r = (own[0] + of_n * m) * r * slope_r;
  const Tensor slope_z = 1 - z, of_z = (own[1] + grad.h * (h - n)) * z * slope_z;
  return {cat({of_r, of_z, of_n}, 1), cat({of_r, of_z, own[3] + of_n * r}, 1), grad.h * z};
}

// --- gru_cell_backward. Inputs: the gradients of h' and of r, z, n, m; r, z, n, m; and h. Outputs: the
// gradients of x's product, of h's, and of the h that is mixed in.

constexpr std::string_view kGruBackward = "gru_cell_backward";

/// Inputs of the backward op, checked.
struct GruBackward {
  explicit GruBackward(const ForwardArgs<CellBackwardAttrs>& args)
      : grad_h(args.in(0)),
        grad_gates(args.in(1)),
        gates(args.in(2)),
        h(args.in(3)),
        state_dtype(args.attrs.state_dtype.value_or(gates.dtype())) {
    require_state(kGruBackward, "h [N, H]", h);
    const std::int64_t n = h.size(0), hidden = h.size(1);
    require_sizes(kGruBackward, "gates", gates, {n, kKept * hidden});
    if (grad_h.defined()) require_sizes(kGruBackward, "the gradient of h'", grad_h, {n, hidden});
    if (grad_gates.defined())
      require_sizes(kGruBackward, "the gradient of the gates", grad_gates, {n, kKept * hidden});
  }
  const Tensor &grad_h, &grad_gates, &gates, &h;
  DType state_dtype;
};

Outputs gru_backward_forward(const ForwardArgs<CellBackwardAttrs>& args) {
  const GruBackward b(args);
  const Shape products{b.h.size(0), kGruGates * b.h.size(1)};
  const TensorOptions options = options_of(b.gates);
  const GruStepGradient found{empty(products, options), empty(products, options),
                              empty(b.h.shape(), {.dtype = b.state_dtype, .device = b.h.device()})};
  run_step_gradient(found, {b.grad_h, b.grad_gates}, b.gates, b.h, common_compute(args));
  return {found.of_x, found.of_h, found.mixed};
}

Outputs gru_backward_reference(const ForwardArgs<CellBackwardAttrs>& args) {
  const GruBackward b(args);
  const DType compute = common_compute(args), dtype = b.gates.dtype();
  const GruStepGradient found = composed_step_gradient(
      {composed_gradient(b.grad_h, b.h, compute), composed_gradient(b.grad_gates, b.gates, compute)},
      to(b.gates, compute), to(b.h, compute));
  return {to(found.of_x, dtype), to(found.of_h, dtype), to(found.mixed, b.state_dtype)};
}

std::vector<Sample<CellBackwardAttrs>> gru_backward_samples() {
  const SampleInput state = real({3, 2}), gates = real({3, 8}), open = real({3, 8}, 0.1, 0.9);
  return {{{state, gates, open, state}, {}}, {{real({1, 3}), absent(), real({1, 12}), real({1, 3})}, {}}};
}
constexpr Op<CellBackwardAttrs> gru_backward_op = gradient_op<CellBackwardAttrs>(
    kGruBackward, gru_backward_samples, gru_backward_forward, gru_backward_reference, tensor_set(0, 1));
const Registered gru_backward_registered{gru_backward_op};

// --- gru_cell. Inputs: x, h, w_ih, w_hh, b_ih, b_hh. Outputs: h', and r, z, n, m

constexpr std::string_view kGru = "gru_cell";

CellInputs checked_gru(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = CellInputs::of(args, 1);
  require_cell(kGru, cell, kGruGates);
  return cell;
}

Outputs gru_forward(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked_gru(args);
  const TensorOptions options = options_of(cell.x);
  const GruStep next{empty(cell.h.shape(), options), empty({cell.batch(), kKept * cell.hidden()}, options)};
  run_step(next, cell_product(cell.x, cell.w_ih), cell_product(cell.h, cell.w_hh), cell.h, cell);
  return {next.h, next.gates};
}

Outputs gru_reference(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked_gru(args);
  const DType compute = cell.compute();
  const GruStep next =
      composed_step(composed_product(cell.x, cell.w_ih, cell.b_ih, compute),
                    composed_product(cell.h, cell.w_hh, cell.b_hh, compute), to(cell.h, compute));
  return {to(next.h, cell.dtype()), to(next.gates, cell.dtype())};
}

Gradients gru_vjp(const VjpArgs<NoAttrs>& args) {
  const Tensors found =
      bind(gru_backward_op, {grad_or_none(args, 0), grad_or_none(args, 1), args.out(1), args.in(1)},
           CellBackwardAttrs{args.wanted(1)});
  Gradients result(args.num_inputs());
  spread_product(args, result, found[0], {0, 2, 4});
  spread_product(args, result, found[1], {1, 3, 5});
  if (args.needs(1)) result[1] = result[1] + found[2];
  return result;
}

std::vector<Sample<NoAttrs>> gru_samples() { return cell_samples(kGruGates, 1); }
constexpr Op<NoAttrs> gru_op{
    .info = {.name = kGru, .category = Category::lower_precision, .optional_inputs = tensor_set(4, 5)},
    .samples = gru_samples,
    .forward = gru_forward,
    .vjp = gru_vjp,
    .saves = {tensor_set(0, 1, 2, 3), tensor_set(1)},
    .reference = gru_reference,
};
const Registered gru_registered{gru_op};

// --- gru_sequence_backward. Inputs: the gradients of output and gates; gates, output, h and w_hh. Outputs:
// the gradients of x's products of all steps, of h's, and of h.

constexpr std::string_view kGruSequence = "gru_sequence", kGruSequenceBackward = "gru_sequence_backward";

/// Inputs of the backward op, checked.
struct GruSequenceBackward {
  explicit GruSequenceBackward(const ForwardArgs<SequenceBackwardAttrs>& args)
      : grad{args.in(0), args.in(1)},
        gates(args.in(2)),
        output(args.in(3)),
        h(args.in(4)),
        w_hh(args.in(5)),
        state_dtype(args.attrs.state_dtype.value_or(gates.dtype())) {
    constexpr std::string_view op = kGruSequenceBackward;
    require_steps(op, "gates [L, N, 4 H]", gates);
    require_state(op, "h [N, H]", h);
    order = {gates.size(0), args.attrs.reverse};
    const std::int64_t length = order.length, n = h.size(0), hidden = h.size(1);
    require_sizes(op, "gates", gates, {length, n, kKept * hidden});
    require_sizes(op, "output", output, {length, n, hidden});
    require_sizes(op, "w_hh", w_hh, {kGruGates * hidden, hidden});
    if (grad.h.defined()) require_sizes(op, "the gradient of the output", grad.h, {length, n, hidden});
    if (grad.gates.defined())
      require_sizes(op, "the gradient of the gates", grad.gates, {length, n, kKept * hidden});
  }
  /// The h that step k began with.
  [[nodiscard]] Tensor before(std::int64_t k) const { return k == 0 ? h : at(output, order[k - 1]); }
  /// The shape of a product of all gates at all steps.
  [[nodiscard]] Shape products() const { return {order.length, h.size(0), kGruGates * h.size(1)}; }

  const GruStep grad;  ///< of all steps
  const Tensor &gates, &output, &h, &w_hh;
  DType state_dtype;
  Order order;
};

Outputs gru_sequence_backward_forward(const ForwardArgs<SequenceBackwardAttrs>& args) {
  const GruSequenceBackward b(args);
  const DType compute = common_compute(args);
  const Tensor of_x = empty(b.products(), options_of(b.gates)),
               of_h = empty(of_x.shape(), options_of(b.gates));
  // The gradient of the state between two steps stays where it is, unrounded.
  const Tensor of_state = zeros(b.h.shape(), {.dtype = compute, .device = b.h.device()});
  const Tensor weight = for_many_products(b.w_hh);
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    if (b.grad.h.defined()) of_state.add_(at(b.grad.h, t));
    const Tensor of_product = at(of_h, t);
    run_step_gradient({at(of_x, t), of_product, of_state}, {of_state, at(b.grad.gates, t)}, at(b.gates, t),
                      b.before(k), compute);
    product_into(of_state, of_product, weight, 1, 1);
  }
  return {of_x, of_h, to(of_state, b.state_dtype)};
}

Outputs gru_sequence_backward_reference(const ForwardArgs<SequenceBackwardAttrs>& args) {
  const GruSequenceBackward b(args);
  const DType compute = common_compute(args), dtype = b.gates.dtype();
  const GruStep grad{composed_gradient(b.grad.h, b.output, compute),
                     composed_gradient(b.grad.gates, b.gates, compute)};
  const Tensor weight = to(transpose(b.w_hh, 0, 1), compute);
  std::array<std::vector<Tensor>, 2> products;
  for (std::vector<Tensor>& steps : products) steps.resize(static_cast<std::size_t>(b.order.length));
  Tensor of_state;  // from the steps after
  for (std::int64_t k = b.order.length; k-- > 0;) {
    const std::int64_t t = b.order[k];
    const auto place = static_cast<std::size_t>(t);
    const Tensor own = at(grad.h, t);
    const GruStepGradient found =
        composed_step_gradient({of_state.defined() ? own + of_state : own, at(grad.gates, t)},
                               to(at(b.gates, t), compute), to(b.before(k), compute));
    products[0][place] = to(found.of_x, dtype), products[1][place] = to(found.of_h, dtype);
    of_state = found.mixed + linear(to(products[1][place], compute), weight);
  }
  return {stack(products[0]), stack(products[1]), to(of_state, b.state_dtype)};
}

std::vector<Sample<SequenceBackwardAttrs>> gru_sequence_backward_samples() {
  const SampleInput states = real({3, 2, 2}), gates = real({3, 2, 8}), open = real({3, 2, 8}, 0.1, 0.9),
                    weight = real({6, 2}, -1, 1);
  return {{{states, gates, open, states, real({2, 2}), weight}, {}},
          {{states, absent(), open, states, real({2, 2}), weight}, {.reverse = true}},
          {{absent(), real({1, 1, 12}), real({1, 1, 12}), real({1, 1, 3}), real({1, 3}), real({9, 3}, -1, 1)},
           {}}};
}
constexpr Op<SequenceBackwardAttrs> gru_sequence_backward_op =
    rounding_between_steps(gradient_op<SequenceBackwardAttrs>(
        kGruSequenceBackward, gru_sequence_backward_samples, gru_sequence_backward_forward,
        gru_sequence_backward_reference, tensor_set(0, 1)));
const Registered gru_sequence_backward_registered{gru_sequence_backward_op};

// --- gru_sequence. Inputs: x, h, w_ih, w_hh, b_ih, b_hh. Outputs: h' and gates of all steps

CellInputs checked_gru_sequence(const ForwardArgs<SequenceAttrs>& args) {
  return checked_sequence(kGruSequence, CellInputs::of(args, 1), kGruGates);
}

Outputs gru_sequence_forward(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_gru_sequence(args);
  const Order order{cell.x.size(0), args.attrs.reverse};
  const TensorOptions options = options_of(cell.x);
  const std::int64_t n = cell.batch(), hidden = cell.hidden();
  const Tensor of_x =
      reshape(cell_product(as_rows(cell.x), cell.w_ih), {order.length, n, kGruGates * hidden});
  const GruStep all{empty({order.length, n, hidden}, options),
                    empty({order.length, n, kKept * hidden}, options)};
  const Tensor weight = for_many_products(transpose(cell.w_hh, 0, 1));
  const Tensor of_h = empty({n, kGruGates * hidden}, options_of(of_x));
  Tensor h = cell.h;
  for (std::int64_t k = 0; k < order.length; ++k) {
    const std::int64_t t = order[k];
    const GruStep next{at(all.h, t), at(all.gates, t)};
    product_into(of_h, h, weight, 1, 0);
    run_step(next, at(of_x, t), of_h, h, cell);
    h = next.h;
  }
  return {all.h, all.gates};
}

Outputs gru_sequence_reference(const ForwardArgs<SequenceAttrs>& args) {
  const CellInputs cell = checked_gru_sequence(args);
  const Order order{cell.x.size(0), args.attrs.reverse};
  const DType compute = cell.compute(), dtype = cell.dtype();
  std::array<std::vector<Tensor>, 2> found;
  for (std::vector<Tensor>& steps : found) steps.resize(static_cast<std::size_t>(order.length));
  Tensor h = cell.h;
  for (std::int64_t k = 0; k < order.length; ++k) {
    const std::int64_t t = order[k];
    const GruStep next = composed_step(composed_product(at(cell.x, t), cell.w_ih, cell.b_ih, compute),
                                       composed_product(h, cell.w_hh, cell.b_hh, compute), to(h, compute));
    h = to(next.h, dtype);
    found[0][static_cast<std::size_t>(t)] = h;
    found[1][static_cast<std::size_t>(t)] = to(next.gates, dtype);
  }
  return {stack(found[0]), stack(found[1])};
}

Gradients gru_sequence_vjp(const VjpArgs<SequenceAttrs>& args) {
  const Order order{args.in_shape(0)[0], args.attrs.reverse};
  const Tensors found =
      bind(gru_sequence_backward_op,
           {grad_or_none(args, 0), grad_or_none(args, 1), args.out(1), args.out(0), args.in(1), args.in(3)},
           SequenceBackwardAttrs{order.reverse, args.wanted(1)});
  Gradients result(args.num_inputs());
  spread_steps(args, result, found[0], {0, 2, 4});
  const Tensor before = states_before(order, args.in(1), args.out(0));
  spread_weights(args, result, as_rows(found[1]), as_rows(before), 3, 5);
  if (args.needs(1)) result[1] = found[2];
  return result;
}

std::vector<Sample<SequenceAttrs>> gru_sequence_samples() { return sequence_samples(kGruGates, 1); }
constexpr Op<SequenceAttrs> gru_sequence_op{
    .info = sequence_info(kGruSequence, 1),
    .samples = gru_sequence_samples,
    .forward = gru_sequence_forward,
    .vjp = gru_sequence_vjp,
    .saves = {tensor_set(0, 1, 2, 3), tensor_set(0, 1)},
    .reference = gru_sequence_reference,
};
const Registered gru_sequence_registered{gru_sequence_op};

}  // namespace

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                const Tensor& b_hh) {
  return call_cell(gru_op, {x, h, w_ih, w_hh, b_ih, b_hh}, 1)[0];
}

Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                    const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(gru_sequence_op, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse})[0];
}

}  // namespace mezzo
