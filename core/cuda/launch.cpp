// Before and after every kernel launch: the device, the counter, the note for error messages, and the wait
// for the kernel if MEZZO_CUDA_SYNC or a program asks for it.
#include "mezzo/core/cuda/launch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

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

}  // namespace mezzo::cuda
