// The kernels under every reduction: a block per output, or a thread per output where outputs lie side by
// side in memory; long reductions are cut into chunks that a second kernel folds. Orders depend on sizes
// only, and nothing is added by atomics.
//
// An engine has: Acc; Place and place(output), where an output's elements lie; identity(); accumulate(acc,
// place, element), which adds one element; combine(a, b); store(output, acc). It is copied to the device.
#pragma once

#include <cstdint>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/scratch.h"

namespace mezzo::kernels::cuda {

/// Sizes of a reduction and how it is spread over the device.
struct ReduceSizes {
  std::int64_t outputs, count;      ///< results, and elements of each
  std::int64_t chunks, chunk_size;  ///< each output's elements are cut into so many runs
};

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
__device__ MEZZO_ALWAYS_INLINE void finish(const Engine& engine, const ReduceSizes& sizes,
                                           std::int64_t output, std::int64_t chunk,
                                           const typename Engine::Acc& acc, typename Engine::Acc* partial) {
  if (sizes.chunks == 1)
    engine.store(output, acc);
  else
    partial[chunk * sizes.outputs + output] = acc;
}

/// A block per (output, chunk): blockIdx.y is the chunk, blocks walk over outputs.
template <class Engine>
__global__ void reduce_rows(Engine engine, ReduceSizes sizes, typename Engine::Acc* partial) {
  using Acc = typename Engine::Acc;
  Shared<Acc> scratch(blockDim.x / kWarp);
  const std::int64_t chunk = blockIdx.y, begin = chunk * sizes.chunk_size;
  const std::int64_t end = begin + sizes.chunk_size < sizes.count ? begin + sizes.chunk_size : sizes.count;
  for (std::int64_t output = blockIdx.x; output < sizes.outputs; output += gridDim.x) {
    const auto place = engine.place(output);
    Acc acc = engine.identity();
    for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) engine.accumulate(acc, place, i);
    acc = reduce_block(acc, CombineFn<Engine>{engine}, scratch);
    if (threadIdx.x == 0) finish(engine, sizes, output, chunk, acc, partial);
  }
}

/// A thread per (output, chunk): neighbours read neighbours.
template <class Engine>
__global__ void reduce_columns(Engine engine, ReduceSizes sizes, typename Engine::Acc* partial) {
  using Acc = typename Engine::Acc;
  const std::int64_t chunk = blockIdx.y, begin = chunk * sizes.chunk_size;
  const std::int64_t end = begin + sizes.chunk_size < sizes.count ? begin + sizes.chunk_size : sizes.count;
  for (std::int64_t output = first_index(); output < sizes.outputs; output += grid_size()) {
    const auto place = engine.place(output);
    Acc acc = engine.identity();
    for (std::int64_t i = begin; i < end; ++i) engine.accumulate(acc, place, i);
    finish(engine, sizes, output, chunk, acc, partial);
  }
}

/// Folds the chunks of each output in order.
template <class Engine>
__global__ void reduce_partials(Engine engine, ReduceSizes sizes, const typename Engine::Acc* partial) {
  for (std::int64_t output = first_index(); output < sizes.outputs; output += grid_size()) {
    typename Engine::Acc acc = partial[output];
    for (std::int64_t chunk = 1; chunk < sizes.chunks; ++chunk) {
      acc = engine.combine(acc, partial[chunk * sizes.outputs + output]);
    }
    engine.store(output, acc);
  }
}

/// Chunks for a reduction whose outputs alone give `busy` blocks: enough to fill a device, and none shorter
/// than `shortest` elements.
[[nodiscard]] inline ReduceSizes chunked(std::int64_t outputs, std::int64_t count, std::int64_t busy,
                                         std::int64_t shortest) {
  constexpr std::int64_t kEnough = 512;
  const std::int64_t wanted = busy >= kEnough ? 1 : (kEnough + busy - 1) / busy;
  const std::int64_t most = count / shortest;
  const std::int64_t chunks = wanted < most ? wanted : (most < 1 ? 1 : most);
  const std::int64_t size = (count + chunks - 1) / chunks;
  return {outputs, count, size == 0 ? 1 : (count + size - 1) / size, size};
}

}  // namespace detail

/// Runs a reduction of `outputs` results over `count` elements each. `side_by_side`: neighbouring outputs,
/// not the elements of one, are neighbours in memory.
template <class Engine>
void run_reduction(Device device, const Engine& engine, std::int64_t outputs, std::int64_t count,
                   bool side_by_side) {
  if (outputs == 0) return;
  using Acc = typename Engine::Acc;
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const bool columns = side_by_side && outputs >= kWarp;
  const std::int64_t busy = columns ? (outputs + kThreads - 1) / kThreads : outputs;
  ReduceSizes sizes = detail::chunked(outputs, count, busy, columns ? 32 : 8 * kThreads);
  if (sizes.chunks < 1) sizes.chunks = 1;
  const Scratch partial(device, sizes.chunks == 1 ? 0 : sizes.chunks * outputs * std::int64_t{sizeof(Acc)});
  Acc* const memory = static_cast<Acc*>(partial.data());
  if (columns) {
    const Grid grid = grid_for(outputs);
    mezzo::cuda::launch(detail::reduce_columns<Engine>,
                        dim3(grid.blocks, static_cast<unsigned>(sizes.chunks)), dim3(grid.threads), 0, stream,
                        engine, sizes, memory);
  } else {
    const Grid threads = grid_for(sizes.chunk_size < 1 ? 1 : sizes.chunk_size);
    const auto blocks = static_cast<unsigned>(outputs < kMostBlocks ? outputs : kMostBlocks);
    mezzo::cuda::launch(detail::reduce_rows<Engine>, dim3(blocks, static_cast<unsigned>(sizes.chunks)),
                        dim3(threads.threads), reduce_scratch_bytes<Acc>(), stream, engine, sizes, memory);
  }
  if (sizes.chunks == 1) return;
  const Grid grid = grid_for(outputs);
  mezzo::cuda::launch(detail::reduce_partials<Engine>, dim3(grid.blocks), dim3(grid.threads), 0, stream,
                      engine, sizes, static_cast<const Acc*>(memory));
}

}  // namespace mezzo::kernels::cuda
