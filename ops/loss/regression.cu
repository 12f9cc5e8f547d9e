// mse_loss and l1_loss, and their gradients in one pass.
#include "mezzo/ops/loss/elementwise.h"

namespace mezzo {

namespace {

using namespace ops;
using namespace kernels::scalar;

// --- scalar math

struct SquaredErrorFn {
  template <class T>
  MEZZO_HD MEZZO_ALWAYS_INLINE T operator()(T x, T target) const {
    const T difference = x - target;
    return difference * difference;
  }
};
/// Half of its slope.
MEZZO_FUNCTOR(DifferenceFn, T, (T x, T target), x - target);
MEZZO_FUNCTOR(AbsoluteErrorFn, T, (T x, T target), AbsFn{}(x - target));
MEZZO_FUNCTOR(AbsoluteErrorSlopeFn, T, (T x, T target), SignFn{}(x - target));
using op_samples::real;

/// What both losses have in common.
struct Distance : ElementwiseLoss {
  using Attrs = LossAttrs;
  static constexpr bool kIsSymmetric = true;
  static std::vector<Sample<LossAttrs>> samples() {
    // x and target lie apart, so that no sample comes near the kink of l1_loss.
    return {{{real({3, 5}), real({3, 5}, 3, 5)}, {Reduction::mean}},
            {{real({3, 5}, 3, 5), real({5})}, {Reduction::sum}},
            {{real({3, 5}), real({3, 1}, 3, 5)}, {Reduction::none}},
            {{real({}), real({}, 3, 5)}, {Reduction::mean}}};
  }
};

struct SquaredError : Distance {
  static constexpr std::string_view kName = "mse_loss", kBackwardName = "mse_loss_backward";
  static constexpr double kSlopeFactor = 2;
  static SquaredErrorFn loss(const Attrs& /*attrs*/) { return {}; }
  static DifferenceFn slope(const Attrs& /*attrs*/) { return {}; }
  static Tensor losses(const Attrs& /*attrs*/, const Tensor& x, const Tensor& target) {
    return square(x - target);
  }
};

struct AbsoluteError : Distance {
  static constexpr std::string_view kName = "l1_loss", kBackwardName = "l1_loss_backward";
  static AbsoluteErrorFn loss(const Attrs& /*attrs*/) { return {}; }
  static AbsoluteErrorSlopeFn slope(const Attrs& /*attrs*/) { return {}; }
  static Tensor losses(const Attrs& /*attrs*/, const Tensor& x, const Tensor& target) {
    return abs(x - target);
  }
};

const Registered regression_registered{kElementwiseLoss<SquaredError>, kElementwiseLossBackward<SquaredError>,
                                       kElementwiseLoss<AbsoluteError>,
                                       kElementwiseLossBackward<AbsoluteError>};

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kElementwiseLoss<SquaredError>, {x, target}, LossAttrs{reduction});
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return bind(kElementwiseLoss<AbsoluteError>, {x, target}, LossAttrs{reduction});
}

}  // namespace mezzo
