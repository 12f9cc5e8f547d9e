// The CPU's definitions of softmax: compute type and kind become template arguments.
#include "mezzo/kernels/softmax/cpu_softmax.h"

#include "mezzo/kernels/softmax/softmax.h"

namespace mezzo::kernels::cpu {

namespace {

/// Calls f with a value of the compute type and the kind as a constant.
template <class F>
void with_kind(SoftmaxKind kind, DType compute, const F& f) {
  const auto with_type = [&](auto log) { compute == DType::f64 ? f(double{}, log) : f(float{}, log); };
  if (kind == SoftmaxKind::log_softmax)
    with_type(std::true_type{});
  else
    with_type(std::false_type{});
}

}  // namespace

void softmax(SoftmaxKind kind, const View& out, const View& in, std::size_t dim, DType compute) {
  with_kind(kind, compute, [&](auto number, auto log) {
    using T = decltype(number);
    constexpr bool kLog = decltype(log)::value;
    softmax<T, kLog>(out, in, dim);
  });
}

void softmax_backward(SoftmaxKind kind, const View& out, const View& grad, const View& output,
                      std::size_t dim, DType compute) {
  with_kind(kind, compute, [&](auto number, auto log) {
    using T = decltype(number);
    constexpr bool kLog = decltype(log)::value;
    softmax_backward<T, kLog>(out, grad, output, dim);
  });
}

}  // namespace mezzo::kernels::cpu
