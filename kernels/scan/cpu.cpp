// The CPU's definition of the scans: compute type and operands become template arguments.
#include "mezzo/kernels/scan/cpu.h"

#include "mezzo/kernels/scan/scan.h"

namespace mezzo::kernels::cpu {

void scan(const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
  const ScanOrder order{recurrence.initial, recurrence.reverse};
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    using scalar::AffineMap;
    if (recurrence.add == nullptr)
      scan<T, AffineMap<Wide<T>, true, false>>(out, {RowOperand(*recurrence.scale, dim)}, dim, order);
    else if (recurrence.scale == nullptr)
      scan<T, AffineMap<Wide<T>, false, true>>(out, {RowOperand(*recurrence.add, dim)}, dim, order);
    else
      scan<T, AffineMap<Wide<T>, true, true>>(
          out, {RowOperand(*recurrence.scale, dim), RowOperand(*recurrence.add, dim)}, dim, order);
  });
}

void log_scan(const View& out, const View& x, std::size_t dim, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    using Map = scalar::LogAddMap<Wide<T>>;
    scan<T, Map>(out, {RowOperand(x, dim)}, dim, {Map::kNothing, false});
  });
}

}  // namespace mezzo::kernels::cpu
