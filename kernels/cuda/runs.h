// A tensor for kernels over many tensors: one run of elements, or else its strides.
#pragma once

#include <optional>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/strided.h"

namespace mezzo::kernels::cuda {

/// A tensor that is one run of elements: an item of a Batch (kernels/cuda/batch.h).
struct Run {
  Array array;
  std::int64_t elements = 0;
  bool packed = false;  ///< load_pack and store_pack may be used
};

/// The places of a tensor's elements, in the order in which they lie in memory.
[[nodiscard]] inline Space<1> space_in_memory_order(const View& view) {
  const View ordered = in_memory_order(view);
  return {ordered.shape, {ordered.strides}};
}

/// The tensor as a run; nothing when it is none.
[[nodiscard]] inline std::optional<Run> run_of(const View& view, const Space<1>& space) {
  if (!space.linear(0)) return std::nullopt;
  const Array array{view.data, view.dtype};
  return Run{array, space.total(), takes_packs(array)};
}

/// Calls f with a value of the compute type of a floating dtype.
template <class F>
__device__ MEZZO_ALWAYS_INLINE void with_compute(DType dtype, const F& f) {
  if (dtype == DType::f64)
    f(double{});
  else
    f(float{});
}

}  // namespace mezzo::kernels::cuda
