#include "mezzo/kernels/scan/scan.h"

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/scan/cpu.h"
#include "mezzo/kernels/scan/cuda.h"

namespace mezzo::kernels {

void scan(Device device, const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
#if MEZZO_HAVE_CUDA
  if (device.is_cuda()) return cuda::scan(device, out, recurrence, dim, compute);
#endif
  require_host_kernel(device);
  const cpu::ScanOrder order{recurrence.initial, recurrence.reverse};
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    using cpu::RowOperand;
    if (recurrence.add == nullptr)
      cpu::scan<T, true, false>(out, {RowOperand(*recurrence.scale, dim)}, dim, order);
    else if (recurrence.scale == nullptr)
      cpu::scan<T, false, true>(out, {RowOperand(*recurrence.add, dim)}, dim, order);
    else
      cpu::scan<T, true, true>(out, {RowOperand(*recurrence.scale, dim), RowOperand(*recurrence.add, dim)},
                               dim, order);
  });
}

}  // namespace mezzo::kernels
