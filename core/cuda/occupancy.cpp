// A table of CUDA's answers. A look into it is a fraction of what the launch costs that follows.
#include "mezzo/core/cuda/occupancy.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/device.h"

namespace mezzo::cuda {

namespace {

struct OccupancyTable {
  std::mutex mutex;
  std::map<std::tuple<int, const void*, unsigned, std::size_t>, unsigned> blocks;
};
/// Never destroyed: static objects may start kernels at the end of the program.
OccupancyTable& occupancy_table() {
  static auto* const table = new OccupancyTable;
  return *table;
}

unsigned ask_for_blocks(const void* kernel, unsigned threads, std::size_t shared_bytes, int index) {
  const DeviceGuard guard(index);
  const RelaxedCapture relaxed;  // the question may load the kernel's module
  int of_multiprocessor = 0, multiprocessors = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_multiprocessor, kernel, static_cast<int>(threads),
                                                      shared_bytes),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index),
        "cudaDeviceGetAttribute");
  return static_cast<unsigned>(std::max(1, of_multiprocessor * multiprocessors));
}

}  // namespace

unsigned resident_blocks(const void* kernel, unsigned threads, std::size_t shared_bytes, int index) {
  OccupancyTable& table = occupancy_table();
  const std::scoped_lock lock(table.mutex);
  unsigned& blocks = table.blocks[{index, kernel, threads, shared_bytes}];
  if (blocks == 0) blocks = ask_for_blocks(kernel, threads, shared_bytes, index);
  return blocks;
}

}  // namespace mezzo::cuda
