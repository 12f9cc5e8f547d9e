// gru_cell and gru_sequence.
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

/// Inputs: the gradients of h' by itself and through later steps, and of r, z, n, m; then r, z, n, m and h.
/// Results: the gradients of x's three products, of h's, and of the h that is mixed in.
struct GruCellBackwardFn {
  static constexpr std::size_t kInputs = 11, kResults = 7;
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE Numbers<T, kResults> operator()(const Numbers<T, kInputs>& x) const {
    const T grad = x.at[0] + x.at[1], r = x.at[6], z = x.at[7], n = x.at[8], m = x.at[9];
    const T of_n = TanhBackwardFn{}(x.at[4] + grad * (T(1) - z), n);
    const T of_r = SigmoidBackwardFn{}(x.at[2] + of_n * m, r);
    const T of_z = SigmoidBackwardFn{}(x.at[3] + grad * (x.at[10] - n), z);
    return {{of_r, of_z, of_n, of_r, of_z, x.at[5] + of_n * r, grad * z}};
  }
};

struct GruCell {
  static constexpr std::string_view kName = "gru_cell", kSequence = "gru_sequence",
                                    kBackward = "gru_sequence_backward";
  static constexpr std::int64_t kGates = 3, kKept = 4;  // r, z, n and m, the product of h in n
  static constexpr bool kHasC = false, kSeparate = true;

  static void step(const CellStep& to, const Tensor& of_x, const Tensor& of_h, const CellStep& from,
                   const CellInputs& cell) {
    const Shape& shape = from.h.shape();
    kernels::cell_map(to.h.device(), GruCellFn{}, CellViews<5>(shape).gates(to.gates, 4).state(to.h),
                      CellViews<13>(shape)
                          .gates(of_x, 3)
                          .gates(of_h, 3)
                          .gates(cell.b_ih, 3)
                          .gates(cell.b_hh, 3)
                          .state(from.h),
                      cell.compute());
  }
  static CellStep composed_step(const Tensor& of_x, const Tensor& of_h, const CellStep& from) {
    const Tensors x = composed_gates(of_x, kGates), m = composed_gates(of_h, kGates);
    const Tensor r = sigmoid(x[0] + m[0]), z = sigmoid(x[1] + m[1]), n = tanh(x[2] + r * m[2]);
    return {(1 - z) * n + z * from.h, {}, cat({r, z, n, m[2]}, 1)};
  }
  static void step_gradient(const CellStepGradient& to, const CellStep& grad, const CellStep& later,
                            const Tensor& gates, const Tensor& before, const Tensor& /*now*/, DType compute) {
    const Shape& shape = before.shape();
    kernels::cell_map(
        before.device(), GruCellBackwardFn{},
        CellViews<7>(shape).gates(to.of_x, 3).gates(to.of_h, 3).state(to.state),
        CellViews<11>(shape).state(grad.h).state(later.h).gates(grad.gates, 4).gates(gates, 4).state(before),
        compute);
  }
};
const RegisteredCell<GruCell> gru_registered;

}  // namespace

Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                const Tensor& b_hh) {
  return call_cell(kCellOp<GruCell>, {x, h, w_ih, w_hh, b_ih, b_hh}, 1)[0];
}

Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh,
                    const Tensor& b_ih, const Tensor& b_hh, bool reverse) {
  return bind(kCellSequenceOp<GruCell>, {x, h, w_ih, w_hh, b_ih, b_hh}, SequenceAttrs{reverse})[0];
}

}  // namespace mezzo
