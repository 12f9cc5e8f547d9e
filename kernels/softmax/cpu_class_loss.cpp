// The CPU's definitions of the classification losses: the compute type becomes a template argument.
#include "mezzo/kernels/softmax/cpu_class_loss.h"

#include "mezzo/kernels/softmax/class_loss.h"

namespace mezzo::kernels::cpu {

std::int64_t count_classes(const char* /*op*/, const ClassTarget& target, std::int64_t rows,
                           std::int64_t classes, double* weight_sum, DType compute) {
  std::int64_t wrong = -1;
  dispatch_real(compute,
                [&]<class T>(TypeTag<T>) { wrong = count_classes<T>(target, rows, classes, weight_sum); });
  return wrong;
}

void cross_entropy(void* losses, const View& x, std::size_t dim, const ClassTarget& target, DType compute) {
  // The array of indices of no rows may be nullptr, which elsewhere means probabilities.
  if (layout::numel(x.shape) == 0) return;
  dispatch_real(compute,
                [&]<class T>(TypeTag<T>) { cross_entropy<T>(static_cast<T*>(losses), x, dim, target); });
}

void cross_entropy_backward(const View& out, const RowScales& scales, const View& x, std::size_t dim,
                            const ClassTarget& target, DType compute) {
  if (layout::numel(x.shape) == 0) return;
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    cross_entropy_backward<T>(out, static_cast<const T*>(scales.values), scales.step, x, dim, target);
  });
}

void nll(void* losses, const View& x, std::size_t dim, const ClassTarget& target, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) { nll<T>(static_cast<T*>(losses), x, dim, target); });
}

void nll_backward(const View& out, const RowScales& scales, std::size_t dim, const ClassTarget& target,
                  DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    nll_backward<T>(out, static_cast<const T*>(scales.values), scales.step, dim, target);
  });
}

}  // namespace mezzo::kernels::cpu
