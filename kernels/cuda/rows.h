// Strided arrays as rows, and row-wise CUDA kernels that walk a row as they like (scans, single elements): a
// team of threads has a row. The team is a block, or one thread where neighbouring rows are neighbours in
// memory. Kernels that visit all elements of a row are in row_passes.h.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/row_plan.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/cuda/strided.h"

/// Before a loop. MEZZO_UNROLL unrolls it fully, so that arrays that it indexes can be in registers;
/// MEZZO_KEEP_DEVICE_LOOP keeps a loop with a large body from being unrolled.
#if defined(__CUDACC__)
#define MEZZO_UNROLL _Pragma("unroll")
#define MEZZO_KEEP_DEVICE_LOOP _Pragma("unroll 1")
#else
#define MEZZO_UNROLL
#define MEZZO_KEEP_DEVICE_LOOP
#endif

namespace mezzo::kernels::cuda {

/// Shared memory of the kernels here: two sums in f64 per warp, twice.
inline constexpr std::size_t kRowScratchBytes = 4 * reduce_scratch_bytes<double>();

/// Threads of a block that shares a row in memory, at most.
inline constexpr unsigned kMostBlockTeam = 512;

struct AddTerms {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger; a NaN wins.
struct LargerTerm {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, float>) {
      float larger;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
      return larger;
    }
#endif
    return b > a || b != b ? b : a;
  }
};

/// The threads that share a row: all of a block.
struct BlockTeam {
  [[nodiscard]] __device__ std::int64_t rank() const { return threadIdx.x; }
  [[nodiscard]] __device__ std::int64_t size() const { return blockDim.x; }
  /// combine over the values of all threads, in every thread.
  template <class A, class Combine>
  [[nodiscard]] __device__ A reduce(A value, const Combine& combine) const {
    Shared<A> scratch(blockDim.x / kWarp);
    return reduce_block(value, combine, scratch);
  }
};
/// One thread with a row of its own.
struct ThreadTeam {
  [[nodiscard]] __device__ std::int64_t rank() const { return 0; }
  [[nodiscard]] __device__ std::int64_t size() const { return 1; }
  template <class A, class Combine>
  [[nodiscard]] __device__ A reduce(A value, const Combine& /*combine*/) const {
    return value;
  }
};

/// N arrays of one shape as rows along a dim.
template <std::size_t N>
struct RowArrays {
  Array arrays[N];
  std::int64_t steps[N];  ///< between neighbours of a row
  Space<N> rows;          ///< over the other dims
  std::int64_t length = 1;
  double per_length = 1;  ///< 1 / length
  bool across = false;    ///< neighbouring rows are closer in memory than neighbours of a row
  bool packed = true;     ///< rows are whole packs of neighbours, aligned to them, in all arrays
  /// Packed, some arrays have 16 bits, and rows are whole pairs of packs in all arrays, aligned to them in
  /// those.
  bool joined = false;
  /// Rows are runs, which begin as far behind a pack in all arrays.
  bool shifted = true;

  RowArrays(const std::array<View, N>& views, std::size_t dim) {
    Shape outer = views[0].shape;
    std::array<Dims, N> strides;
    const bool has_dim = dim < outer.size();
    for (std::size_t k = 0; k < N; ++k) {
      arrays[k] = {views[k].data, views[k].dtype};
      strides[k] = views[k].strides;
      steps[k] = has_dim ? strides[k][dim] : 1;
      if (has_dim) strides[k].erase(dim);
      shifted = shifted && steps[k] == 1 && takes_packs(arrays[k]);
    }
    packed = shifted;
    if (has_dim) {
      length = outer[dim];
      outer.erase(dim);
    }
    bool halves = false, aligned = length % (2 * kPack) == 0;
    packed = packed && length % kPack == 0;
    for (std::size_t d = 0; d < outer.size(); ++d) {
      if (outer[d] <= 1) continue;
      across = across || std::abs(strides[0][d]) < std::abs(steps[0]);
      for (std::size_t k = 0; k < N; ++k) {
        packed = packed && strides[k][d] % kPack == 0;
        aligned = aligned && strides[k][d] % (2 * kPack) == 0;
        shifted = shifted && (strides[k][d] - strides[0][d]) % kPack == 0;
      }
    }
    for (const Array& array : arrays) {
      if (!is_16_bit(array.dtype)) continue;
      halves = true;
      aligned = aligned && is_aligned_to(array, 2 * kPack);
    }
    joined = packed && halves && aligned;
    per_length = 1.0 / static_cast<double>(length);
    rows = Space<N>(outer, strides);
  }
};

/// A row of one array, whose elements the threads of a team read one by one.
template <class T, class Team>
struct RowInMemory {
  const void* data;
  DType dtype;
  std::int64_t start, step, length;
  Team team;

  /// f(element in f64) for the thread's elements.
  template <class F>
  __device__ void each(const F& f) const {
    MEZZO_KEEP_DEVICE_LOOP
    for (std::int64_t i = team.rank(); i < length; i += team.size())
      f(static_cast<double>(load<T, Among::floating>(data, dtype, start + i * step)));
  }
};

/// One row of RowArrays: element i of array k.
template <std::size_t N>
class Row {
 public:
  __device__ Row(const RowArrays<N>& all, std::int64_t row) : all_(all) { all.rows.offsets(row, start_); }
  template <class T>
  [[nodiscard]] __device__ T get(std::size_t k, std::int64_t i) const {
    return load<T>(all_.arrays[k].data, all_.arrays[k].dtype, start_[k] + i * all_.steps[k]);
  }
  template <class T>
  __device__ void set(std::size_t k, std::int64_t i, T value) const {
    store<T>(all_.arrays[k].data, all_.arrays[k].dtype, start_[k] + i * all_.steps[k], value);
  }
  template <class T, class Team>
  [[nodiscard]] __device__ RowInMemory<T, Team> in_memory(std::size_t k, std::int64_t length,
                                                          const Team& team) const {
    return {all_.arrays[k].data, all_.arrays[k].dtype, start_[k], all_.steps[k], length, team};
  }

 private:
  const RowArrays<N>& all_;
  std::int64_t start_[N];
};

namespace detail {

/// Two blocks per multiprocessor: left to itself the compiler spills rather than take more than 32 registers.
template <std::size_t N, class Body>
__global__ void __launch_bounds__(kMostBlockTeam, 2) rows_by_block(Body body, RowArrays<N> all) {
  for (std::int64_t r = blockIdx.x; r < all.rows.total(); r += gridDim.x) {
    body(BlockTeam{}, Row<N>(all, r), r, all.length);
  }
}
template <std::size_t N, class Body>
__global__ void rows_by_thread(Body body, RowArrays<N> all) {
  for (std::int64_t r = first_index(); r < all.rows.total(); r += grid_size()) {
    body(ThreadTeam{}, Row<N>(all, r), r, all.length);
  }
}

}  // namespace detail

/// Runs `body(team, row, index, length)` for every row. The body is a trivially copyable functor whose call
/// is a template over the team. A block's threads take `items` elements at once.
template <std::size_t N, class Body>
void run_rows(Device device, const RowArrays<N>& all, const Body& body, unsigned most_threads = kThreads,
              std::int64_t items = 1) {
  const std::int64_t rows = all.rows.total();
  if (rows == 0) return;
  if (thread_per_row(all.across, rows)) {
    start(device, rows, detail::rows_by_thread<N, Body>, body, all);
  } else {
    const std::int64_t wanted = (all.length + items - 1) / items;
    const unsigned threads = wanted < most_threads ? grid_for(wanted < 1 ? 1 : wanted).threads : most_threads;
    const auto blocks = static_cast<unsigned>(rows < kMostBlocks ? rows : kMostBlocks);
    mezzo::cuda::launch(detail::rows_by_block<N, Body>, dim3(blocks), dim3(threads), kRowScratchBytes,
                        mezzo::cuda::current_stream(device), body, all);
  }
}

}  // namespace mezzo::kernels::cuda
