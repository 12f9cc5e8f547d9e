// rnn_tanh_cell and rnn_relu_cell, a product and one nonlinearity; and both over all steps of a sequence.
#include "mezzo/kernels/math/activation_math.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent/cell_ops.h"

namespace mezzo {

namespace {

using namespace ops;
using kernels::Numbers;

/// h' = act(sums + b_ih + b_hh). Inputs: sums, b_ih, b_hh. Results: h'.
template <class Activation>
struct RnnCellFn {
  static constexpr std::size_t kInputs = 3, kResults = 1;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    return {{Activation{}(x.at[0] + (x.at[1] + x.at[2]))}};
  }
};

/// The gradient of the sums. Inputs: the gradients of h' by itself and through later steps, and h'.
template <class Backward>
struct RnnCellBackwardFn {
  static constexpr std::size_t kInputs = 3, kResults = 1;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    return {{Backward{}(x.at[0] + x.at[1], x.at[2])}};
  }
};

struct Tanh {
  static constexpr std::string_view kCell = "rnn_tanh_cell", kSequence = "rnn_tanh_sequence",
                                    kBackward = "rnn_tanh_sequence_backward";
  using Function = kernels::scalar::TanhFn;
  using Gradient = kernels::scalar::TanhBackwardFn;
  static Tensor apply(const Tensor& x) { return tanh(x); }
};
struct Relu {
  static constexpr std::string_view kCell = "rnn_relu_cell", kSequence = "rnn_relu_sequence",
                                    kBackward = "rnn_relu_sequence_backward";
  using Function = kernels::scalar::ReluFn;
  using Gradient = kernels::scalar::ReluBackwardFn;
  static Tensor apply(const Tensor& x) { return relu(x); }
};

template <class Activation>
struct RnnCell {
  static constexpr std::string_view kName = Activation::kCell, kSequence = Activation::kSequence,
                                    kBackward = Activation::kBackward;
  static constexpr std::int64_t kGates = 1, kKept = 0;
  static constexpr bool kHasC = false, kSeparate = false;

  static void step(const CellStep& to, const Tensor& sums, const Tensor& /*of_h*/, const CellStep& from,
                   const CellInputs& cell) {
    const Shape& shape = from.h.shape();
    kernels::cell_map(
        to.h.device(), RnnCellFn<typename Activation::Function>{}, CellViews<1>(shape).state(to.h),
        CellViews<3>(shape).state(sums).gates(cell.b_ih, 1).gates(cell.b_hh, 1), cell.compute());
  }
  static CellStep composed_step(const Tensor& of_x, const Tensor& of_h, const CellStep& /*from*/) {
    return {Activation::apply(of_x + of_h), {}, {}};
  }
  static void step_gradient(const CellStepGradient& to, const CellStep& grad, const CellStep& later,
                            const Tensor& /*gates*/, const Tensor& /*before*/, const Tensor& now,
                            DType compute) {
    const Shape& shape = now.shape();
    kernels::cell_map(now.device(), RnnCellBackwardFn<typename Activation::Gradient>{},
                      CellViews<1>(shape).state(to.of_x),
                      CellViews<3>(shape).state(grad.h).state(later.h).state(now), compute);
  }
};
const RegisteredCell<RnnCell<Tanh>> tanh_registered;
const RegisteredCell<RnnCell<Relu>> relu_registered;

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<RnnCell<Tanh>>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& b_ih, const Tensor& b_hh) {
  return call_cell(kCellOp<RnnCell<Relu>>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1);
}

Tensor rnn_tanh_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                         const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(kCellSequenceOp<RnnCell<Tanh>>, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
}
Tensor rnn_relu_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                         const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(kCellSequenceOp<RnnCell<Relu>>, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse});
}

}  // namespace mezzo
