// CUDA kernels over indexed elements. An index out of range is reported as a fault of the device and never
// used. Kernels that write are in cuda_put.cu, kernels that sort in sort/cuda.cu.
#include "mezzo/kernels/indexing/indexing.h"

#include "mezzo/core/cuda/fault.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/indexing/cuda_elements.h"
#include "mezzo/kernels/reduce/cuda_kernels.h"

namespace mezzo::kernels::cuda {

namespace {

/// The first position whose index is out of range.
struct FirstWrong {
  using Acc = std::int64_t;
  using Place = int;
  const std::int64_t* indices;
  std::int64_t n, low, limit;
  mezzo::cuda::Fault* fault;
  const char* op;

  [[nodiscard]] __device__ Acc identity() const { return n; }
  [[nodiscard]] __device__ Place place(std::int64_t /*output*/) const { return 0; }
  __device__ void accumulate(Acc& acc, Place /*place*/, std::int64_t at) const {
    const std::int64_t i = indices[at];
    if (i < low || i >= limit) acc = combine(acc, at);
  }
  [[nodiscard]] __device__ Acc combine(Acc a, Acc b) const { return a < b ? a : b; }
  __device__ void store(std::int64_t /*output*/, Acc acc) const {
    if (acc < n) fault->report(op, acc, indices[acc], limit);
  }
};

/// Arrays of `space`: result, base, index.
template <class T>
__global__ void take_elements(T* out, Elements<T> from, Space<3> space) {
  const std::int64_t total = space.total();
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    std::int64_t at[3];
    space.offsets(e, at);
    const std::int64_t i = from.index[at[2]];
    out[at[0]] = from.has(i) ? from.base[at[1] + i * from.step] : T{0};
  }
}

}  // namespace

std::int64_t first_wrong_index(Device device, const char* op, const std::int64_t* indices, std::int64_t n,
                               std::int64_t low, std::int64_t limit) {
  if (n != 0) {
    run_reduction(device, FirstWrong{indices, n, low, limit, mezzo::cuda::fault_record(device), op}, 1, n,
                  false);
  }
  return -1;
}

void take(Device device, const View& out, const Places& places) {
  if (layout::numel(out.shape) == 0) return;
  const std::array<const View*, 3> views{&out, &places.base, &places.index};
  const Space<3> space = space_of(part_of(views, {}, false));
  with_bits(size_of(out.dtype), [&](auto bits) {
    using T = decltype(bits);
    start_resident(device, space.total(), take_elements<T>, static_cast<T*>(out.data), elements_of<T>(places),
                   space);
  });
}

}  // namespace mezzo::kernels::cuda
