// The pointwise part of recurrent cells: one pass from the gates' products to gates and states, and one pass
// back. Apart from pointwise/pointwise.h because such a pass has many operands, several results and rows of
// gates.
#pragma once

#include <array>

#include "mezzo/kernels/device_code.h"
#include "mezzo/kernels/recurrent/cpu.h"
#include "mezzo/kernels/recurrent/numbers.h"
#include "mezzo/kernels/view.h"
#if MEZZO_DEVICE_CODE
#include "mezzo/kernels/recurrent/cuda.h"
#endif

namespace mezzo::kernels {

/// results[k](n, j) = f(inputs(n, j)).at[k] for a functor f. All views have one shape
/// [rows.., columns] of at least 2 dims, any strides and any floating dtypes; an input without memory is 0
/// everywhere. Arithmetic is in `compute` (f32 or f64), results are rounded once. A result may be in the
/// memory of an input that has the same dtype and strides.
template <class F, bool kDeviceCode = MEZZO_DEVICE_CODE>
void cell_map(Device device, F f, const std::array<View, F::kResults>& results,
              const std::array<View, F::kInputs>& inputs, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    MEZZO_ON_CUDA(cuda::cell_map<T>(device, f, results, inputs))
    cpu::cell_map<T>(f, results, inputs);
  });
}

}  // namespace mezzo::kernels
