// The CPU's definition of the linear recurrence: compute type and operands become template arguments.
#include "mezzo/kernels/scan/cpu.h"

#include "mezzo/kernels/scan/scan.h"

namespace mezzo::kernels::cpu {

void scan(const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
  const ScanOrder order{recurrence.initial, recurrence.reverse};
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    if (recurrence.add == nullptr)
      scan<T, true, false>(out, {RowOperand(*recurrence.scale, dim)}, dim, order);
    else if (recurrence.scale == nullptr)
      scan<T, false, true>(out, {RowOperand(*recurrence.add, dim)}, dim, order);
    else
      scan<T, true, true>(out, {RowOperand(*recurrence.scale, dim), RowOperand(*recurrence.add, dim)}, dim,
                          order);
  });
}

}  // namespace mezzo::kernels::cpu
