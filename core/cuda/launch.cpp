// Before and after every kernel launch: the device, the counter, the note for error messages, and the wait
// for the kernel if MEZZO_CUDA_SYNC or a program asks for it; and how many blocks are at work at a time.
#include "mezzo/core/cuda/launch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "mezzo/core/cuda/memory_pool.h"

namespace mezzo::cuda {

namespace {

std::atomic<std::uint64_t> launch_count{0};

bool asked_by_environment() noexcept {
  const char* const value = std::getenv("MEZZO_CUDA_SYNC");
  return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
}

std::atomic<bool>& synchronous() noexcept {
  static std::atomic<bool> on{asked_by_environment()};
  return on;
}

/// CUDA's answers. A look into them is a fraction of what the launch costs that follows.
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

std::uint64_t launches() noexcept { return launch_count.load(std::memory_order_relaxed); }
bool synchronous_launches() noexcept { return synchronous().load(std::memory_order_relaxed); }
void set_synchronous_launches(bool on) noexcept { synchronous().store(on, std::memory_order_relaxed); }

LaunchScope::LaunchScope(dim3 grid, dim3 block, std::size_t shared_bytes, const Stream& stream)
    : stream_(stream), device_(stream.device().index) {
  // The first use of a kernel loads its module, which drivers before CUDA 12.3 count among the calls that a
  // capture forbids; this thread may meet the kernel for the first time while it captures a graph.
  if (active_pool(stream.device().index) != nullptr) relaxed_.emplace();
  config_.gridDim = grid;
  config_.blockDim = block;
  config_.dynamicSmemBytes = shared_bytes;
  config_.stream = native(stream);
}

void LaunchScope::finish(cudaError_t launched) const {
  check(launched, "the kernel launch");
  after_launch(stream_);
}

void after_launch(const Stream& stream) {
  launch_count.fetch_add(1, std::memory_order_relaxed);
  note_launch();
  if (synchronous_launches() && !stream.is_capturing())
    check(cudaStreamSynchronize(native(stream)), "its kernel");
}

unsigned resident_blocks(const void* kernel, unsigned threads, std::size_t shared_bytes, int index) {
  OccupancyTable& table = occupancy_table();
  const std::scoped_lock lock(table.mutex);
  unsigned& blocks = table.blocks[{index, kernel, threads, shared_bytes}];
  if (blocks == 0) blocks = ask_for_blocks(kernel, threads, shared_bytes, index);
  return blocks;
}

}  // namespace mezzo::cuda
