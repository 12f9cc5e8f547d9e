// The CUDA rows of the linear recurrences. A block takes as many elements of a row at once as it has threads:
// maps h -> scale h + add are joined pairwise, in each warp by shuffles, between warps in order.
#include "mezzo/kernels/scan/scan.h"

#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/reduce/reducers.h"
#include "mezzo/kernels/scan/scan_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// Arrays: result, scale if kScale, what is added if kAdd.
template <class T, bool kScale, bool kAdd>
struct ScanRow {
  double initial;
  bool reverse;
  static constexpr std::size_t kArrays = 1 + kScale + kAdd;
  using Map = scalar::AffineMap<Wide<T>, kScale, kAdd>;

  [[nodiscard]] __device__ static Map map_at(const Row<kArrays>& row, std::int64_t i) {
    Map map;
    if constexpr (kScale) map.scale = static_cast<Wide<T>>(row.template get<T>(1, i));
    if constexpr (kAdd) map.add = static_cast<Wide<T>>(row.template get<T>(1 + kScale, i));
    return map;
  }
  [[nodiscard]] __device__ std::int64_t place(std::int64_t k, std::int64_t n) const {
    return reverse ? n - 1 - k : k;
  }

  __device__ void operator()(const ThreadTeam& /*team*/, const Row<kArrays>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    auto h = static_cast<Wide<T>>(initial);
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = place(k, n);
      h = map_at(row, i)(h);
      row.set(0, i, static_cast<T>(h));
    }
  }

  __device__ void operator()(const BlockTeam& team, const Row<kArrays>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    const unsigned warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    static_assert(sizeof(Map) * (kThreads / kWarp) <= reduce_scratch_bytes<double>());
    Shared<Map> of_warps(warps);
    auto carry = static_cast<Wide<T>>(initial);
    for (std::int64_t begin = 0; begin < n; begin += team.size()) {
      const std::int64_t k = begin + team.rank();
      Map map;
      if (k < n) map = map_at(row, place(k, n));
      for (unsigned distance = 1; distance < kWarp; distance *= 2) {
        const Map before = shuffle_up(map, distance);
        if (lane >= distance) map = map.after(before);
      }
      if (lane == kWarp - 1) of_warps.set(warp, map);
      __syncthreads();
      auto h = carry;
      for (unsigned w = 0; w < warps; ++w) {
        if (w == warp) h = carry;
        carry = of_warps.get(w)(carry);
      }
      __syncthreads();
      if (k < n) row.set(0, place(k, n), static_cast<T>(map(h)));
    }
  }
};

}  // namespace

void scan(Device device, const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
  const double initial = recurrence.initial;
  const bool reverse = recurrence.reverse;
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    if (recurrence.add == nullptr) {
      run_rows(device, RowArrays<2>({out, *recurrence.scale}, dim),
               ScanRow<T, true, false>{initial, reverse});
    } else if (recurrence.scale == nullptr) {
      run_rows(device, RowArrays<2>({out, *recurrence.add}, dim), ScanRow<T, false, true>{initial, reverse});
    } else {
      run_rows(device, RowArrays<3>({out, *recurrence.scale, *recurrence.add}, dim),
               ScanRow<T, true, true>{initial, reverse});
    }
  });
}

}  // namespace mezzo::kernels::cuda
