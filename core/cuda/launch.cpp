// What follows every kernel launch: the counter, the note for error messages, and the wait for the kernel
// if MEZZO_CUDA_SYNC or a program asks for it.
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

bool is_recording(int index) noexcept { return active_pool(index) != nullptr; }

void after_launch(const Stream& stream) {
  launch_count.fetch_add(1, std::memory_order_relaxed);
  note_launch();
  if (synchronous_launches() && !stream.is_capturing()) {
    check(cudaStreamSynchronize(native(stream)), "its kernel");
  }
}

}  // namespace mezzo::cuda
