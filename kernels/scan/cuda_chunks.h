// How the rows of a CUDA scan are cut into chunks, from sizes alone. No device code, so that tests of every
// boundary can ask it. Sums are cut, products are not: the factors of a chunk overflow sooner than any
// result, and 0 times that is NaN.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mezzo::kernels::cuda {

inline constexpr unsigned kScanThreads = 256;  ///< of a block
/// Elements that a thread takes at once; in each of them the elements of a warp lie side by side.
inline constexpr int kScanItems = 4;
inline constexpr std::int64_t kMostScanChunks = 256;

/// Each row's chunks, all but the last of `size` elements.
struct ScanChunks {
  std::int64_t count, size;
};

/// One chunk where rows are short, or enough of them to fill the device.
[[nodiscard]] constexpr ScanChunks chunks_of_scan(std::int64_t rows, std::int64_t length) {
  constexpr std::int64_t kFull = 1056;  // blocks: eight for each multiprocessor of an H100 or H200
  constexpr std::int64_t kStep = std::int64_t{kScanThreads} * kScanItems;
  const std::int64_t wanted = std::min(kFull / std::max<std::int64_t>(rows, 1), kMostScanChunks);
  const std::int64_t most = length / (2 * kStep);
  if (rows == 0 || wanted < 2 || most < 2) return {1, length};
  const std::int64_t chunks = std::min(wanted, most);
  const std::int64_t size = (length + chunks * kStep - 1) / (chunks * kStep) * kStep;
  return {(length + size - 1) / size, size};
}

}  // namespace mezzo::kernels::cuda
