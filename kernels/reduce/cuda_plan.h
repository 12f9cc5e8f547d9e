// How a CUDA reduction is spread over blocks and in which order it adds up, chosen from sizes alone. No
// device code, so that tests of every boundary can ask it.
#pragma once

#include <cstdint>

namespace mezzo::kernels::cuda {

/// Neighbours that a thread takes at once, in order: one vector of 16-bit elements, two of f32, four of f64.
inline constexpr int kOctet = 8;

enum class ReduceWay {
  warps,    ///< a warp per output
  blocks,   ///< a block per output, or several for a long one
  columns,  ///< a thread per output and lane, where neighbouring outputs are neighbours in memory
};

inline constexpr unsigned kColumns = 32;     ///< outputs of a block of columns
inline constexpr unsigned kColumnLanes = 8;  ///< threads of each
inline constexpr unsigned kWarpRows = 8;     ///< outputs of a block where a warp has one

/// Sizes of a reduction and how it is spread over the device.
struct ReduceSizes {
  ReduceWay way;
  std::int64_t outputs, count;      ///< results, and elements of each
  std::int64_t chunks, chunk_size;  ///< each output's elements are cut into so many runs, of whole octets
  unsigned threads;                 ///< of a block (blocks only)

  /// Groups of blocks that share the work on the same outputs, a block per chunk.
  [[nodiscard]] constexpr std::int64_t groups() const {
    return way == ReduceWay::columns ? (outputs + kColumns - 1) / kColumns : outputs;
  }
};

/// `side_by_side`: neighbouring outputs, not the elements of one, are neighbours in memory.
[[nodiscard]] constexpr ReduceSizes plan_reduction(std::int64_t outputs, std::int64_t count,
                                                   bool side_by_side) {
  constexpr std::int64_t kFull = 1056;  // blocks: eight for each multiprocessor of an H100 or H200
  constexpr std::int64_t kLongestOfWarp = 512;
  constexpr std::int64_t kShortestChunk = 4096, kShortestColumn = 2 * kOctet * kColumnLanes;
  constexpr unsigned kMostThreads = 256, kLanes = 32;
  ReduceSizes sizes{ReduceWay::warps, outputs, count, 1, count, kMostThreads};
  if (side_by_side && outputs >= kColumns)
    sizes.way = ReduceWay::columns;
  else if (count > kLongestOfWarp)
    sizes.way = ReduceWay::blocks;
  if (sizes.way == ReduceWay::warps) return sizes;
  const std::int64_t groups = sizes.groups() < 1 ? 1 : sizes.groups();
  const std::int64_t wanted = groups >= kFull ? 1 : (kFull + groups - 1) / groups;
  const std::int64_t most = count / (sizes.way == ReduceWay::columns ? kShortestColumn : kShortestChunk);
  const std::int64_t chunks = wanted < most ? wanted : most;
  if (chunks > 1) {
    sizes.chunk_size = (count + chunks * kOctet - 1) / (chunks * kOctet) * kOctet;
    sizes.chunks = (count + sizes.chunk_size - 1) / sizes.chunk_size;
  }
  const std::int64_t octets = (sizes.chunk_size + kOctet - 1) / kOctet;
  const std::int64_t threads = (octets + kLanes - 1) / kLanes * kLanes;
  if (threads < kMostThreads) sizes.threads = static_cast<unsigned>(threads < kLanes ? kLanes : threads);
  return sizes;
}

}  // namespace mezzo::kernels::cuda
