// CUDA kernels over indexed elements. An index out of range is reported as a fault of the device and never
// used. All elements that fall on one place are dealt with by one thread in row-major order, so results are
// those of the CPU, bit for bit; sorting counts for each element those before it. Both are simple and
// correct; walks over very many indices and long rows to sort are slow.
#include "mezzo/kernels/cuda/indexing.h"

#include "mezzo/core/cuda/fault.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/reduce_kernels.h"
#include "mezzo/kernels/cuda/strided.h"

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

template <class T>
struct Elements {
  T* base;
  const std::int64_t* index;
  std::int64_t step, limit;
  [[nodiscard]] __device__ bool has(std::int64_t i) const { return i >= 0 && i < limit; }
};
template <class T>
[[nodiscard]] Elements<T> elements_of(const Places& places) {
  return {static_cast<T*>(places.base.data), static_cast<const std::int64_t*>(places.index.data), places.step,
          places.limit};
}

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

/// Which of `owners` (a power of two) threads deals with a place: any even spread will do.
[[nodiscard]] __device__ std::int64_t owner_of(std::int64_t i, std::int64_t owners) {
  const std::uint64_t mixed = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U;
  return static_cast<std::int64_t>(mixed >> 32U) & (owners - 1);
}

/// Some threads per lane, each walks all its indices and owns some of the places. Arrays of the spaces: base,
/// index, source.
template <class T, class Update>
__global__ void put_elements(Elements<T> to, const T* source, Space<3> lanes, Space<3> steps,
                             std::int64_t owners, Update update) {
  const std::int64_t total = lanes.total() * owners, step_count = steps.total();
  for (std::int64_t thread = first_index(); thread < total; thread += grid_size()) {
    std::int64_t lane[3];
    lanes.offsets(thread / owners, lane);
    for (std::int64_t s = 0; s < step_count; ++s) {
      std::int64_t at[3];
      steps.offsets(s, at);
      const std::int64_t i = to.index[lane[1] + at[1]];
      if (to.has(i) && owner_of(i, owners) == thread % owners)
        update(to.base[lane[0] + at[0] + i * to.step], source[lane[2] + at[2]]);
    }
  }
}

/// Threads per lane: few lanes would leave most of the device idle.
[[nodiscard]] std::int64_t owners_for(std::int64_t lanes, std::int64_t steps) {
  constexpr std::int64_t kEnough = std::int64_t{1} << 14;
  std::int64_t owners = 1;
  while (2 * owners * lanes <= kEnough && 2 * owners <= steps) owners *= 2;
  return owners;
}

template <std::size_t N>
[[nodiscard]] Space<N> space_of(const Walk<N>& walk) {
  return {walk.shape, walk.strides};
}

template <class T, class Update>
void launch_put(Device device, const Places& places, const View& source, const Dims& walked, Update update) {
  if (layout::numel(source.shape) == 0) return;
  const std::array<const View*, 3> views{&places.base, &places.index, &source};
  const Space<3> lanes = space_of(part_of(views, walked, false)),
                 steps = space_of(part_of(views, walked, true));
  const std::int64_t owners = owners_for(lanes.total(), steps.total());
  const Grid grid = grid_for(lanes.total() * owners);
  mezzo::cuda::launch(put_elements<T, Update>, dim3(grid.blocks), dim3(grid.threads), 0,
                      mezzo::cuda::current_stream(device), elements_of<T>(places),
                      static_cast<const T*>(source.data), lanes, steps, owners, update);
}

/// A thread per element: its rank is the number of elements that come before it. Arrays of `lanes`: indices,
/// values.
template <class T>
__global__ void rank_elements(std::int64_t* indices, std::int64_t index_step, std::int64_t wanted, Array in,
                              std::int64_t step, std::int64_t n, Space<2> lanes, bool descending) {
  const std::int64_t total = lanes.total() * n;
  for (std::int64_t e = first_index(); e < total; e += grid_size()) {
    const std::int64_t own_at = e % n;
    std::int64_t lane[2];
    lanes.offsets(e / n, lane);
    const T own = load<T>(in.data, in.dtype, lane[1] + own_at * step);
    std::int64_t rank = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T other = load<T>(in.data, in.dtype, lane[1] + i * step);
      rank += sorts_before(other, i, own, own_at, descending) ? 1 : 0;
    }
    if (rank < wanted) indices[lane[0] + rank * index_step] = own_at;
  }
}

}  // namespace

void check_indices(Device device, const char* op, const std::int64_t* indices, std::int64_t n,
                   std::int64_t low, std::int64_t limit) {
  if (n == 0) return;
  run_reduction(device, FirstWrong{indices, n, low, limit, mezzo::cuda::fault_record(device), op}, 1, n,
                false);
}

void take(Device device, const View& out, const Places& places) {
  if (layout::numel(out.shape) == 0) return;
  const std::array<const View*, 3> views{&out, &places.base, &places.index};
  const Space<3> space = space_of(part_of(views, {}, false));
  const Grid grid = grid_for(space.total());
  with_bits(size_of(out.dtype), [&](auto bits) {
    using T = decltype(bits);
    mezzo::cuda::launch(take_elements<T>, dim3(grid.blocks), dim3(grid.threads), 0,
                        mezzo::cuda::current_stream(device), static_cast<T*>(out.data),
                        elements_of<T>(places), space);
  });
}

void put(Device device, const Places& places, const View& source, const Dims& walked) {
  with_bits(size_of(source.dtype),
            [&](auto bits) { launch_put<decltype(bits)>(device, places, source, walked, AssignTo{}); });
}

void put_add(Device device, const Places& places, const View& source, const Dims& walked) {
  dispatch_compute(source.dtype,
                   [&]<class T>(TypeTag<T>) { launch_put<T>(device, places, source, walked, AddTo{}); });
}

void put_combined(Device device, const Places& places, const View& source, const Dims& walked, Combine how) {
  with_combine(how, [&](auto update) {
    dispatch_compute(source.dtype,
                     [&]<class T>(TypeTag<T>) { launch_put<T>(device, places, source, walked, update); });
  });
}

void sorting_order(Device device, const View& indices, const View& in, std::size_t dim, bool descending) {
  if (layout::numel(indices.shape) == 0) return;
  const std::array<const View*, 2> views{&indices, &in};
  const Space<2> lanes = space_of(part_of(views, {static_cast<std::int64_t>(dim)}, false));
  const std::int64_t n = in.shape[dim];
  const Grid grid = grid_for(lanes.total() * n);
  dispatch_compute(in.dtype, [&]<class T>(TypeTag<T>) {
    mezzo::cuda::launch(rank_elements<T>, dim3(grid.blocks), dim3(grid.threads), 0,
                        mezzo::cuda::current_stream(device), static_cast<std::int64_t*>(indices.data),
                        indices.strides[dim], indices.shape[dim], Array{in.data, in.dtype}, in.strides[dim],
                        n, lanes, descending);
  });
}

}  // namespace mezzo::kernels::cuda
