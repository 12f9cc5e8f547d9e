// The kernels under every reduction: a warp or a block per output, several blocks for a long one, or threads
// side by side where outputs are neighbours in memory (cuda_plan.h). Of several blocks the last one folds
// what all have found. Orders depend on sizes only, and nothing is added by atomics.
//
// An engine has: Acc; Place and place(output), where an output's elements lie; identity(); combine(a, b);
// store(output, acc); and either
//
// * accumulate(acc, place, element), which reads one element and adds it, or
// * Value; reads, how its elements can be read; value(place, element), which reads one; steps(place, first,
//   values), which reads eight neighbours (if there is such a way); octets<n>(place, first, distance,
//   values), which reads n times eight neighbours; and accumulate(acc, place, element, value).
//
// It is copied to the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/last_block.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/reduce/cuda_octets.h"
#include "mezzo/kernels/reduce/cuda_plan.h"

namespace mezzo::kernels::cuda {

namespace detail {

template <class Engine>
struct CombineFn {
  Engine engine;
  using Acc = typename Engine::Acc;
  __device__ MEZZO_ALWAYS_INLINE Acc operator()(const Acc& a, const Acc& b) const {
    return engine.combine(a, b);
  }
};

template <class Engine>
concept ReadsOctets = requires {
  typename Engine::Value;
};
template <class Engine>
concept HasSteps = requires(const Engine& engine, typename Engine::Place place,
                            typename Engine::Value* values) {
  engine.steps(place, 0, values);
};

/// The octets of a reduction's elements [begin, end) that fall to thread `rank` of `size`, one after the
/// other. Their order is the same however they are read. kVectors: whether reads may be ReduceReads::octets.
template <bool kVectors, class Engine>
class OctetFold {
 public:
  using Acc = typename Engine::Acc;
  using Place = typename Engine::Place;
  using Value = typename Engine::Value;

  __device__ OctetFold(const Engine& engine, const Place& place, std::int64_t begin, std::int64_t end)
      : engine_(engine), place_(place), begin_(begin), octets_((end - begin) / kOctet), end_(end) {}

  __device__ MEZZO_ALWAYS_INLINE void run(Acc& acc, unsigned rank, unsigned size) const {
    std::int64_t o = rank;
    if (kVectors && engine_.reads == ReduceReads::octets) {
      for (; o + (kAtOnce - 1) * size < octets_; o += kAtOnce * size) add_octets<kAtOnce>(acc, o, size);
      if (kAtOnce == 2 && o < octets_) {
        add_octets<1>(acc, o, size);
        o += size;
      }
    } else if (HasSteps<Engine> && engine_.reads == ReduceReads::steps) {
      for (; o < octets_; o += size) add_steps(acc, begin_ + o * kOctet);
    } else {
      for (; o < octets_; o += size) add_each(acc, begin_ + o * kOctet, begin_ + (o + 1) * kOctet);
    }
    // The elements behind the last octet count as one more octet.
    if (o == octets_) add_each(acc, begin_ + o * kOctet, end_);
  }

 private:
  /// Four loads of 16 bytes in flight, of f32 (two of a 16-bit type).
  static constexpr int kAtOnce = sizeof(Value) < 8 ? 2 : 1;

  template <int kOctets>
  __device__ MEZZO_ALWAYS_INLINE void add_octets(Acc& acc, std::int64_t octet, unsigned size) const {
    Value values[kOctets * kOctet];
    const std::int64_t first = begin_ + octet * kOctet, distance = std::int64_t{size} * kOctet;
    engine_.template octets<kOctets>(place_, first, distance, values);
    for (int o = 0; o < kOctets; ++o) add(acc, first + o * distance, values + o * kOctet);
  }
  __device__ MEZZO_ALWAYS_INLINE void add_steps(Acc& acc, std::int64_t first) const {
    if constexpr (HasSteps<Engine>) {
      Value values[kOctet];
      engine_.steps(place_, first, values);
      add(acc, first, values);
    }
  }
  __device__ MEZZO_ALWAYS_INLINE void add(Acc& acc, std::int64_t first, const Value* values) const {
    for (int k = 0; k < kOctet; ++k) engine_.accumulate(acc, place_, first + k, values[k]);
  }
  __device__ MEZZO_ALWAYS_INLINE void add_each(Acc& acc, std::int64_t first, std::int64_t last) const {
    MEZZO_KEEP_DEVICE_LOOP
    for (std::int64_t i = first; i < last; ++i) engine_.accumulate(acc, place_, i, engine_.value(place_, i));
  }

  const Engine& engine_;
  const Place& place_;
  std::int64_t begin_, octets_, end_;
};

/// The share of thread `rank` of `size` in elements [begin, end).
template <bool kVectors, class Engine>
__device__ MEZZO_ALWAYS_INLINE typename Engine::Acc fold_elements(const Engine& engine, std::int64_t output,
                                                                  std::int64_t begin, std::int64_t end,
                                                                  unsigned rank, unsigned size) {
  const auto place = engine.place(output);
  typename Engine::Acc acc = engine.identity();
  if constexpr (ReadsOctets<Engine>) {
    OctetFold<kVectors, Engine>(engine, place, begin, end).run(acc, rank, size);
  } else {
    for (std::int64_t i = begin + rank; i < end; i += size) engine.accumulate(acc, place, i);
  }
  return acc;
}

/// The share of thread `rank` of `size` in the partial results of an output, `step` apart.
template <class Engine>
__device__ MEZZO_ALWAYS_INLINE typename Engine::Acc fold_partials(const Engine& engine,
                                                                  const typename Engine::Acc* partial,
                                                                  std::int64_t step, std::int64_t chunks,
                                                                  unsigned rank, unsigned size) {
  typename Engine::Acc acc = engine.identity();
  for (std::int64_t c = rank; c < chunks; c += size) acc = engine.combine(acc, partial[c * step]);
  return acc;
}

struct ChunkRange {
  std::int64_t begin, end;
  __device__ explicit ChunkRange(const ReduceSizes& sizes)
      : begin(static_cast<std::int64_t>(blockIdx.y) * sizes.chunk_size),
        end(begin + sizes.chunk_size < sizes.count ? begin + sizes.chunk_size : sizes.count) {}
};

/// Results of chunks, [chunks, outputs], and a counter per group of blocks; unused where there is one chunk.
template <class Acc>
struct Partials {
  Acc* results;
  std::uint32_t* tickets;
};

/// A warp per output, kWarpRows of them in a block. Three blocks per multiprocessor: left to itself the
/// compiler spills rather than take more than 48 registers.
template <class Engine>
__global__ void __launch_bounds__(kWarp* kWarpRows, 3) reduce_warps(Engine engine, ReduceSizes sizes) {
  for (std::int64_t output = static_cast<std::int64_t>(blockIdx.x) * kWarpRows + threadIdx.y;
       output < sizes.outputs; output += static_cast<std::int64_t>(gridDim.x) * kWarpRows) {
    const auto acc = reduce_warp(fold_elements<true>(engine, output, 0, sizes.count, threadIdx.x, kWarp),
                                 CombineFn<Engine>{engine});
    if (threadIdx.x == 0) engine.store(output, acc);
  }
}

/// A block per (output, chunk): blockIdx.y is the chunk. With one chunk blocks walk over outputs.
template <class Engine>
__global__ void __launch_bounds__(kThreads, 3)
    reduce_blocks(Engine engine, ReduceSizes sizes, Partials<typename Engine::Acc> partials) {
  using Acc = typename Engine::Acc;
  Shared<Acc> scratch(blockDim.x / kWarp);
  const CombineFn<Engine> combine{engine};
  const ChunkRange range(sizes);
  for (std::int64_t output = blockIdx.x; output < sizes.outputs; output += gridDim.x) {
    Acc acc =
        reduce_block(fold_elements<true>(engine, output, range.begin, range.end, threadIdx.x, blockDim.x),
                     combine, scratch);
    if (sizes.chunks > 1) {
      if (threadIdx.x == 0) partials.results[blockIdx.y * sizes.outputs + output] = acc;
      if (!is_last_block(partials.tickets + output, gridDim.y, reduce_scratch_bytes<Acc>())) return;
      acc = reduce_block(fold_partials(engine, partials.results + output, sizes.outputs, sizes.chunks,
                                       threadIdx.x, blockDim.x),
                         combine, scratch);
    }
    if (threadIdx.x == 0) engine.store(output, acc);
  }
}

/// In lane 0: combine over the lanes of a column.
template <class Engine>
__device__ MEZZO_ALWAYS_INLINE typename Engine::Acc reduce_lanes_of_column(
    const Engine& engine, typename Engine::Acc acc, const Shared<typename Engine::Acc>& scratch) {
  if (threadIdx.y != 0) scratch.set((threadIdx.y - 1) * kColumns + threadIdx.x, acc);
  __syncthreads();
  if (threadIdx.y == 0) {
    for (unsigned y = 1; y < kColumnLanes; ++y)
      acc = engine.combine(acc, scratch.get((y - 1) * kColumns + threadIdx.x));
  }
  __syncthreads();
  return acc;
}

/// A thread per (output, lane, chunk): neighbours read neighbours. With one chunk blocks walk over groups.
template <class Engine>
__global__ void __launch_bounds__(kColumns* kColumnLanes, 3)
    reduce_columns(Engine engine, ReduceSizes sizes, Partials<typename Engine::Acc> partials) {
  using Acc = typename Engine::Acc;
  Shared<Acc> scratch((kColumnLanes - 1) * kColumns);
  const ChunkRange range(sizes);
  for (std::int64_t group = blockIdx.x; group * kColumns < sizes.outputs; group += gridDim.x) {
    const std::int64_t output = group * kColumns + threadIdx.x;
    const bool has = output < sizes.outputs, stores = has && threadIdx.y == 0;
    Acc acc = engine.identity();
    if (has) acc = fold_elements<false>(engine, output, range.begin, range.end, threadIdx.y, kColumnLanes);
    acc = reduce_lanes_of_column(engine, acc, scratch);
    if (sizes.chunks > 1) {
      if (stores) partials.results[blockIdx.y * sizes.outputs + output] = acc;
      if (!is_last_block(partials.tickets + group, gridDim.y, sizeof(Acc) * kColumnLanes * kColumns)) return;
      acc = engine.identity();
      if (has)
        acc = fold_partials(engine, partials.results + output, sizes.outputs, sizes.chunks, threadIdx.y,
                            kColumnLanes);
      acc = reduce_lanes_of_column(engine, acc, scratch);
    }
    if (stores) engine.store(output, acc);
  }
}

}  // namespace detail

/// Runs a reduction of `outputs` results over `count` elements each. `side_by_side`: neighbouring outputs,
/// not the elements of one, are neighbours in memory.
template <class Engine>
void run_reduction(Device device, const Engine& engine, std::int64_t outputs, std::int64_t count,
                   bool side_by_side) {
  if (outputs == 0) return;
  using Acc = typename Engine::Acc;
  constexpr std::size_t kFlag = sizeof(std::uint32_t);
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const ReduceSizes sizes = plan_reduction(outputs, count, side_by_side);
  if (sizes.way == ReduceWay::warps) {
    const std::int64_t blocks = (outputs + kWarpRows - 1) / kWarpRows;
    return mezzo::cuda::launch(detail::reduce_warps<Engine>,
                               dim3(static_cast<unsigned>(std::min(blocks, kMostBlocks))),
                               dim3(kWarp, kWarpRows), 0, stream, engine, sizes);
  }
  const bool split = sizes.chunks > 1;
  const Scratch memory(device, split ? sizes.chunks * outputs * std::int64_t{sizeof(Acc)} : 0);
  const Tickets tickets(device, split ? sizes.groups() : 0);
  const detail::Partials<Acc> partials{static_cast<Acc*>(memory.data()), tickets.data()};
  const dim3 grid(static_cast<unsigned>(std::min(sizes.groups(), kMostBlocks)),
                  static_cast<unsigned>(sizes.chunks));
  if (sizes.way == ReduceWay::columns) {
    mezzo::cuda::launch(detail::reduce_columns<Engine>, grid, dim3(kColumns, kColumnLanes),
                        sizeof(Acc) * kColumnLanes * kColumns + kFlag, stream, engine, sizes, partials);
  } else {
    mezzo::cuda::launch(detail::reduce_blocks<Engine>, grid, dim3(sizes.threads),
                        reduce_scratch_bytes<Acc>() + kFlag, stream, engine, sizes, partials);
  }
}

}  // namespace mezzo::kernels::cuda
