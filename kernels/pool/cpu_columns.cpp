// fold on the CPU, a plane at a time.
#include "mezzo/kernels/pool/cpu_columns.h"

#include <algorithm>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/pool/cpu_images.h"
#include "mezzo/kernels/pool/pool.h"

namespace mezzo::kernels::cpu {

namespace {

template <class T>
void fold_as(std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  const std::int64_t inputs = windows.inputs(), outputs = windows.outputs(), kernels = windows.kernels();
  const RowOperand to = detail::as_rows(x, planes, inputs),
                   from = detail::as_rows(columns, planes, kernels * outputs);
  parallel_for(planes, detail::pool_grain(outputs, kernels), [&](std::int64_t begin, std::int64_t end) {
    const RowScratch<T> sums(to.in_place<T>() ? 0 : inputs), widened(from.in_place<T>() ? 0 : from.length());
    for (std::int64_t p = begin; p < end; ++p) {
      T* const image = to.target<T>(p, sums.data()).data;
      std::fill_n(image, inputs, T{0});
      run_isa<AddColumns<T>>(&windows, ColumnPanel{0, kernels, 0, outputs},
                             static_cast<const T*>(from.read<T>(p, 1, widened.data()).data), image, inputs);
      to.finish(p, 1, sums.data());
    }
  });
}

}  // namespace

void fold(std::int64_t planes, const Windows& windows, const View& x, const View& columns) {
  if (compute_dtype(x.dtype) == DType::f64 || compute_dtype(columns.dtype) == DType::f64)
    return fold_as<double>(planes, windows, x, columns);
  fold_as<float>(planes, windows, x, columns);
}

}  // namespace mezzo::kernels::cpu
