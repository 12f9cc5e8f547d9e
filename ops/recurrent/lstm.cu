// lstm_cell and lstm_sequence.
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/cell_ops.h"

namespace mezzo {

namespace {

using namespace ops;
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

/// Inputs: the gradients of h' by itself and through later steps, of c' the same way, and of the gates i, f,
/// g, o; the gates; c and c'. Results: the gradients of the four sums that went into the gates, and that of
/// c.
struct LstmCellBackwardFn {
  static constexpr std::size_t kInputs = 14, kResults = 5;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T i = x.at[8], f = x.at[9], g = x.at[10], o = x.at[11];
    const T t = math::tanh(x.at[13]), of_h = x.at[0] + x.at[1];
    const T of_c = (x.at[2] + x.at[3]) + TanhBackwardFn{}(of_h * o, t);
    return {{SigmoidBackwardFn{}(x.at[4] + of_c * g, i), SigmoidBackwardFn{}(x.at[5] + of_c * x.at[12], f),
             TanhBackwardFn{}(x.at[6] + of_c * i, g), SigmoidBackwardFn{}(x.at[7] + of_h * t, o), of_c * f}};
  }
};

struct LstmCell {
  static constexpr std::string_view kName = "lstm_cell", kSequence = "lstm_sequence",
                                    kBackward = "lstm_sequence_backward";
  static constexpr std::int64_t kGates = 4, kKept = 4;
  static constexpr bool kHasC = true, kSeparate = false;

  static void step(const CellStep& to, const Tensor& sums, const Tensor& /*of_h*/, const CellStep& from,
                   const CellInputs& cell) {
    const Shape& shape = from.c.shape();
    kernels::cell_map(
        to.h.device(), LstmCellFn{}, CellViews<6>(shape).gates(to.gates, 4).state(to.h).state(to.c),
        CellViews<13>(shape).gates(sums, 4).gates(cell.b_ih, 4).gates(cell.b_hh, 4).state(from.c),
        cell.compute());
  }
  static CellStep composed_step(const Tensor& of_x, const Tensor& of_h, const CellStep& from) {
    const Tensors sum = composed_gates(of_x + of_h, kGates);
    const Tensor i = sigmoid(sum[0]), f = sigmoid(sum[1]), g = tanh(sum[2]), o = sigmoid(sum[3]);
    const Tensor c = f * from.c + i * g;
    return {o * tanh(c), c, cat({i, f, g, o}, 1)};
  }
  static void step_gradient(const CellStepGradient& to, const CellStep& grad, const CellStep& later,
                            const Tensor& gates, const Tensor& before, const Tensor& now, DType compute) {
    const Shape& shape = now.shape();
    kernels::cell_map(now.device(), LstmCellBackwardFn{},
                      CellViews<5>(shape).gates(to.of_x, 4).state(to.state),
                      CellViews<14>(shape)
                          .state(grad.h)
                          .state(later.h)
                          .state(grad.c)
                          .state(later.c)
                          .gates(grad.gates, 4)
                          .gates(gates, 4)
                          .state(before)
                          .state(now),
                      compute);
  }
};
const RegisteredCell<LstmCell> lstm_registered;

}  // namespace

LstmState lstm_cell(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                    const Tensor& b_ih, const Tensor& b_hh) {
  const Outputs outputs = call_cell(kCellOp<LstmCell>, {x, state.h, state.c, w_ih, w_hh, b_ih, b_hh}, 2);
  return {outputs[0], outputs[1]};
}

LstmSequence lstm_sequence(const Tensor& x, const LstmState& state, const Tensor& w_ih, const Tensor& w_hh,
                           const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  const Outputs outputs =
      bind(kCellSequenceOp<LstmCell>, {x, state.h, state.c, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
  const std::int64_t last = Order{x.size(0), reverse}.last();
  return {outputs[0], {at(outputs[0], last), at(outputs[1], last)}, outputs[1]};
}

}  // namespace mezzo
