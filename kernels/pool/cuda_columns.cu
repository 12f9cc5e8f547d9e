// The CUDA kernel of fold, which gathers: a thread has an element of the result, in the order of memory, and
// adds up what all columns have for its place, in the order of the kernel's places, without atomics.
//
// Bounds: an element's number is below the array's size, and for_each_cover has windows that there are.
#include "mezzo/kernels/pool/pool.h"

#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/cuda_windows.h"

namespace mezzo::kernels::cuda {

namespace {

template <class T>
__global__ void add_columns(std::int64_t planes, Windows windows, Array x, Array columns) {
  const std::int64_t inputs = windows.inputs(), kernels = windows.kernels(), outputs = windows.outputs();
  for (std::int64_t e = first_index(); e < planes * inputs; e += grid_size()) {
    const std::int64_t plane = quotient(e, inputs);
    T sum = 0;
    for_each_cover(windows, position_of(e - plane * inputs, windows.input),
                   [&](std::int64_t k, std::int64_t t) {
                     sum += load<T>(columns.data, columns.dtype, (plane * kernels + k) * outputs + t);
                   });
    store<T>(x.data, x.dtype, e, sum);
  }
}

}  // namespace

void fold(Device device, std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  const bool wide = x.dtype == DType::f64 || columns.dtype == DType::f64;
  dispatch_real(wide ? DType::f64 : DType::f32, [&]<class T>(TypeTag<T>) {
    start(device, planes * windows.inputs(), add_columns<T>, planes, windows, array_of(x), array_of(columns));
  });
}

}  // namespace mezzo::kernels::cuda
