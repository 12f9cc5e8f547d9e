// rnn_tanh_cell and rnn_relu_cell: a product and one nonlinearity.
#include "mezzo/ops/recurrent.h"

#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/common.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::Numbers;
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

/// The two kinds of a plain cell.
struct TanhKind {
  static constexpr std::string_view kName = "rnn_tanh_cell";
  using Function = kernels::scalar::TanhFn;
  static Tensor apply(const Tensor& x) { return tanh(x); }
  static Tensor gradient(const Tensor& grad, const Tensor& out) { return tanh_backward(grad, out); }
};
struct ReluKind {
  static constexpr std::string_view kName = "rnn_relu_cell";
  using Function = kernels::scalar::ReluFn;
  static Tensor apply(const Tensor& x) { return relu(x); }
  static Tensor gradient(const Tensor& grad, const Tensor& out) { return relu_backward(grad, out); }
};

template <class Kind>
Outputs rnn_forward(const Args& args) {
  const CellInputs cell = CellInputs::of(args, 1);
  require_cell(Kind::kName, cell, 1);
  const Shape& state = cell.h.shape();
  const Tensor sums = cell_product(cell.h, cell.w_hh, cell_product(cell.x, cell.w_ih));
  Tensor out = sums.dtype() == cell.dtype() ? sums : empty(state, options_of(cell.x));
  kernels::cell_map(out.device(), RnnCellFn<typename Kind::Function>{}, {view_of(out)},
                    {view_of(sums), gate_view(cell.b_ih, 0, state), gate_view(cell.b_hh, 0, state)},
                    cell.compute());
  return out;
}

template <class Kind>
Outputs rnn_reference(const Args& args) {
  const CellInputs cell = CellInputs::of(args, 1);
  require_cell(Kind::kName, cell, 1);
  const DType compute = cell.compute();
  const Tensor sums = composed_product(cell.x, cell.w_ih, cell.b_ih, compute) +
                      composed_product(cell.h, cell.w_hh, cell.b_hh, compute);
  return to(Kind::apply(sums), cell.dtype());
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
constexpr Op<NoAttrs> kCellOp{
    .info = {.name = Kind::kName, .category = Category::lower_precision, .optional_inputs = tensor_set(4, 5)},
    .samples = rnn_samples,
    .forward = rnn_forward<Kind>,
    .vjp = rnn_vjp<Kind>,
    .saves = {tensor_set(0, 1, 2, 3), tensor_set(0)},
    .reference = rnn_reference<Kind>,
};
const Registered rnn_tanh_registered{kCellOp<TanhKind>};
const Registered rnn_relu_registered{kCellOp<ReluKind>};

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<TanhKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<ReluKind>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}

}  // namespace mezzo
