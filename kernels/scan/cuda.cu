// The CUDA rows of the scans. Each warp of a block takes a run of neighbouring elements: their maps
// (scan_math.h) are joined pairwise, in each warp by shuffles, between warps in order. Sums along a few long
// rows, logarithms of sums, and extrema are cut into chunks with a block each: one launch adds up the chunks,
// and a second one goes through them, each from the sum of the chunks before it.
#include "mezzo/kernels/scan/scan.h"

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/reduce/reducers.h"
#include "mezzo/kernels/scan/cuda_chunks.h"
#include "mezzo/kernels/scan/scan_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// Elements of a row, counted in the order in which it is walked.
struct ScanRange {
  std::int64_t first, last;
};

/// Arrays: the result, and the operands of the map.
template <class T, class Map>
struct ScanRow {
  Wide<T> initial;
  bool reverse;
  static constexpr std::size_t kArrays = 1 + Map::kOperands;

  [[nodiscard]] __device__ static Map map_at(const Row<kArrays>& row, std::int64_t i) {
    return Map::of([&](std::size_t k) { return static_cast<Wide<T>>(row.template get<T>(1 + k, i)); });
  }
  [[nodiscard]] __device__ std::int64_t place(std::int64_t k, std::int64_t n) const {
    return reverse ? n - 1 - k : k;
  }

  __device__ void operator()(const ThreadTeam& /*team*/, const Row<kArrays>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    Wide<T> h = initial;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = place(k, n);
      h = map_at(row, i)(h);
      row.set(0, i, static_cast<T>(h));
    }
  }
  __device__ void operator()(const BlockTeam& /*team*/, const Row<kArrays>& row, std::int64_t /*index*/,
                             std::int64_t n) const {
    run(row, n, {0, n}, initial);
  }

  /// The elements of a range by a block; `carry` is the value before them.
  __device__ void run(const Row<kArrays>& row, std::int64_t n, const ScanRange& range, Wide<T> carry) const {
    const unsigned warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    static_assert(sizeof(Map) * (kScanThreads / kWarp) <= reduce_scratch_bytes<double>());
    Shared<Map> of_warps(warps);
    for (std::int64_t begin = range.first; begin < range.last; begin += blockDim.x * kScanItems) {
      const std::int64_t first = begin + warp * kWarp * kScanItems + lane;
      Map maps[kScanItems];
      for (int j = 0; j < kScanItems; ++j) {
        const std::int64_t k = first + j * kWarp;
        if (k < range.last) maps[j] = map_at(row, place(k, n));
      }
      join_in_warp(maps, lane);
      if (lane == kWarp - 1) of_warps.set(warp, maps[kScanItems - 1]);
      __syncthreads();
      auto h = carry;
      for (unsigned w = 0; w < warps; ++w) {
        if (w == warp) h = carry;
        carry = of_warps.get(w)(carry);
      }
      __syncthreads();
      for (int j = 0; j < kScanItems; ++j) {
        const std::int64_t k = first + j * kWarp;
        if (k < range.last) row.set(0, place(k, n), static_cast<T>(maps[j](h)));
      }
    }
  }

  /// In every thread: the sum of a range by a block.
  [[nodiscard]] __device__ Wide<T> sum(const Row<kArrays>& row, std::int64_t n,
                                       const ScanRange& range) const {
    static_assert(Map::kCut);
    Wide<T> total = Map::kNothing;
    for (std::int64_t begin = range.first + threadIdx.x; begin < range.last;
         begin += blockDim.x * kScanItems) {
      Map maps[kScanItems];
      for (int j = 0; j < kScanItems; ++j) {
        const std::int64_t k = begin + j * blockDim.x;
        if (k < range.last) maps[j] = map_at(row, place(k, n));
      }
      for (int j = 0; j < kScanItems; ++j) total = maps[j](total);
    }
    return sum_of_block(total);
  }
  [[nodiscard]] __device__ static Wide<T> sum_of_block(Wide<T> value) {
    return BlockTeam{}.reduce(value, typename Map::Join{});
  }

 private:
  /// Joins each lane's j-th map with all maps of the warp before it: the j-th maps of lower lanes, and all
  /// lanes' maps before the j-th.
  __device__ static void join_in_warp(Map (&maps)[kScanItems], unsigned lane) {
    for (int j = 0; j < kScanItems; ++j) {
      for (unsigned distance = 1; distance < kWarp; distance *= 2) {
        const Map before = shuffle_up(maps[j], distance);
        if (lane >= distance) maps[j] = maps[j].after(before);
      }
      if (j > 0) maps[j] = maps[j].after(of_last_lane(maps[j - 1]));
    }
  }
};

/// One block per chunk; blockIdx.x counts the chunks of a row.
template <class T, class Map>
__global__ void __launch_bounds__(kScanThreads)
    add_up_chunks(ScanRow<T, Map> body, RowArrays<2> all, ScanChunks chunks, Wide<T>* sums) {
  const Row<2> row(all, blockIdx.y);
  const std::int64_t first = blockIdx.x * chunks.size;
  const Wide<T> total = body.sum(row, all.length, {first, first + chunks.size});  // none of the last chunk
  if (threadIdx.x == 0) sums[blockIdx.y * gridDim.x + blockIdx.x] = total;
}
template <class T, class Map>
__global__ void __launch_bounds__(kScanThreads)
    scan_chunks(ScanRow<T, Map> body, RowArrays<2> all, ScanChunks chunks, const Wide<T>* sums) {
  const Row<2> row(all, blockIdx.y);
  const unsigned chunk = blockIdx.x;
  static_assert(kMostScanChunks <= kScanThreads, "a thread for each sum before");
  const Wide<T> before = body.sum_of_block(
      threadIdx.x < chunk ? sums[blockIdx.y * (chunks.count - 1) + threadIdx.x] : Map::kNothing);
  const std::int64_t first = chunk * chunks.size, last = first + chunks.size;
  body.run(row, all.length, {first, last < all.length ? last : all.length},
           typename Map::Join{}(body.initial, before));
}

template <class T, class Map>
void run_in_chunks(Device device, const ScanRow<T, Map>& body, const RowArrays<2>& all,
                   const ScanChunks& chunks) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const auto rows = static_cast<unsigned>(all.rows.total()), count = static_cast<unsigned>(chunks.count);
  const Scratch memory(device, rows * (chunks.count - 1) * std::int64_t{sizeof(Wide<T>)});
  auto* const sums = static_cast<Wide<T>*>(memory.data());
  mezzo::cuda::launch(add_up_chunks<T, Map>, dim3(count - 1, rows), dim3(kScanThreads), kRowScratchBytes,
                      stream, body, all, chunks, sums);
  mezzo::cuda::launch(scan_chunks<T, Map>, dim3(count, rows), dim3(kScanThreads), kRowScratchBytes, stream,
                      body, all, chunks, sums);
}

/// Rows of one operand, in chunks where that takes fewer steps.
template <class T, class Map>
void run_one_operand(Device device, const RowArrays<2>& all, const ScanRow<T, Map>& body) {
  const ScanChunks chunks = chunks_of_scan(all.rows.total(), all.length);
  if (chunks.count > 1) return run_in_chunks(device, body, all, chunks);
  run_rows(device, all, body, kScanThreads, kScanItems);
}

}  // namespace

void scan(Device device, const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
  const bool reverse = recurrence.reverse;
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    const auto initial = static_cast<Wide<T>>(recurrence.initial);
    using scalar::AffineMap;
    if (recurrence.add == nullptr) {
      run_rows(device, RowArrays<2>({out, *recurrence.scale}, dim),
               ScanRow<T, AffineMap<Wide<T>, true, false>>{initial, reverse}, kScanThreads, kScanItems);
    } else if (recurrence.scale == nullptr) {
      run_one_operand(device, RowArrays<2>({out, *recurrence.add}, dim),
                      ScanRow<T, AffineMap<Wide<T>, false, true>>{initial, reverse});
    } else {
      run_rows(device, RowArrays<3>({out, *recurrence.scale, *recurrence.add}, dim),
               ScanRow<T, AffineMap<Wide<T>, true, true>>{initial, reverse}, kScanThreads, kScanItems);
    }
  });
}

void log_scan(Device device, const View& out, const View& x, std::size_t dim, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    using Map = scalar::LogAddMap<Wide<T>>;
    run_one_operand(device, RowArrays<2>({out, x}, dim), ScanRow<T, Map>{Map::kNothing, false});
  });
}

void extremum_scan(Device device, const View& out, const View& x, std::size_t dim, bool least,
                   DType compute) {
  const RowArrays<2> all({out, x}, dim);
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    using Least = scalar::ExtremumMap<Wide<T>, true>;
    using Largest = scalar::ExtremumMap<Wide<T>, false>;
    if (least)
      run_one_operand(device, all, ScanRow<T, Least>{Least::kNothing, false});
    else
      run_one_operand(device, all, ScanRow<T, Largest>{Largest::kNothing, false});
  });
}

}  // namespace mezzo::kernels::cuda
