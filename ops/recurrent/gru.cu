// gru_cell, and the pointwise part of its gradient as an op of its own.
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/recurrent/common.h"
#include "mezzo/ops/shape.h"

namespace mezzo {

namespace {

using namespace ops;
using samples::absent;
using samples::real;

constexpr std::int64_t kGruGates = 3;
constexpr std::int64_t kKept = 4;  ///< r, z, n and m, the product of h in n

// --- scalar math

namespace math = kernels::math;
using kernels::Numbers;
using kernels::scalar::SigmoidBackwardFn;
using kernels::scalar::TanhBackwardFn;

/// Inputs: the product of x for the gates r, z, n, that of h, b_ih and b_hh for each gate, and h. Results: r,
/// z, n and the part m of n that r scales, and h' = (1 - z) n + z h, where n = tanh(.. + r m).
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
  const Shape& state = b.h.shape();
  const Device device = b.h.device();
  const TensorOptions options = options_of(b.gates);
  const Tensor of_x = empty({state[0], kGruGates * state[1]}, options), of_h = empty(of_x.shape(), options);
  const Tensor mixed = empty(state, {.dtype = b.state_dtype, .device = device});
  const auto gate = [&](const Tensor& gates, std::int64_t k) { return gate_view(gates, k, state); };
  kernels::cell_map(device, GruCellBackwardFn{},
                    {gate(of_x, 0), gate(of_x, 1), gate(of_x, 2), gate(of_h, 0), gate(of_h, 1), gate(of_h, 2),
                     view_of(mixed)},
                    {state_view(b.grad_h), gate(b.grad_gates, 0), gate(b.grad_gates, 1),
                     gate(b.grad_gates, 2), gate(b.grad_gates, 3), gate(b.gates, 0), gate(b.gates, 1),
                     gate(b.gates, 2), gate(b.gates, 3), view_of(b.h)},
                    common_compute(args));
  return {of_x, of_h, mixed};
}

Outputs gru_backward_reference(const ForwardArgs<CellBackwardAttrs>& args) {
  const GruBackward b(args);
  const DType compute = common_compute(args);
  const Tensors gates = composed_gates(to(b.gates, compute), kKept),
                own = composed_gates(composed_gradient(b.grad_gates, b.gates, compute), kKept);
  const Tensor &r = gates[0], &z = gates[1], &n = gates[2], &m = gates[3];
  const Tensor grad = composed_gradient(b.grad_h, b.h, compute);
  const Tensor of_n = (own[2] + grad * (1 - z)) * (1 - n * n);
  const Tensor of_r = (own[0] + of_n * m) * r * (1 - r);
  const Tensor of_z = (own[1] + grad * (to(b.h, compute) - n)) * z * (1 - z);
  const DType dtype = b.gates.dtype();
  return {to(cat({of_r, of_z, of_n}, 1), dtype), to(cat({of_r, of_z, own[3] + of_n * r}, 1), dtype),
          to(grad * z, b.state_dtype)};
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
  const Shape& state = cell.h.shape();
  const TensorOptions options = options_of(cell.x);
  const Tensor of_x = cell_product(cell.x, cell.w_ih), of_h = cell_product(cell.h, cell.w_hh);
  const Tensor out = empty(state, options), gates = empty({state[0], kKept * state[1]}, options);
  const auto gate = [&](const Tensor& of, std::int64_t k) { return gate_view(of, k, state); };
  kernels::cell_map(out.device(), GruCellFn{},
                    {gate(gates, 0), gate(gates, 1), gate(gates, 2), gate(gates, 3), view_of(out)},
                    {gate(of_x, 0), gate(of_x, 1), gate(of_x, 2), gate(of_h, 0), gate(of_h, 1), gate(of_h, 2),
                     gate(cell.b_ih, 0), gate(cell.b_ih, 1), gate(cell.b_ih, 2), gate(cell.b_hh, 0),
                     gate(cell.b_hh, 1), gate(cell.b_hh, 2), view_of(cell.h)},
                    cell.compute());
  return {out, gates};
}

Outputs gru_reference(const ForwardArgs<NoAttrs>& args) {
  const CellInputs cell = checked_gru(args);
  const DType compute = cell.compute();
  const Tensors of_x = composed_gates(composed_product(cell.x, cell.w_ih, cell.b_ih, compute), kGruGates),
                of_h = composed_gates(composed_product(cell.h, cell.w_hh, cell.b_hh, compute), kGruGates);
  const Tensor r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]);
  const Tensor n = tanh(of_x[2] + r * of_h[2]);
  return {to((1 - z) * n + z * to(cell.h, compute), cell.dtype()),
          to(cat({r, z, n, of_h[2]}, 1), cell.dtype())};
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

}  // namespace

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                const Tensor& b_hh) {
  return call_cell(gru_op, {x, h, w_ih, w_hh, b_ih, b_hh}, 1)[0];
}

}  // namespace mezzo
