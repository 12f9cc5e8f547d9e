// The calls of oneDNN that run are counted, in several places so that threads do not wait for each other.
// Empty in a build without oneDNN.
#ifdef MEZZO_HAVE_ONEDNN

#include "mezzo/kernels/cpu/onednn.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {

namespace {

/// Get and set the number of OpenMP threads of the calling thread. Which OpenMP library oneDNN uses is known
/// at run time only, so its functions are looked up among the libraries that the process has loaded.
struct OpenMp {
  int (*get)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
};
const OpenMp& openmp() {
  static const OpenMp there;
  return there;
}

struct alignas(64) Count {
  std::atomic<int> calls{0};
};
constinit std::array<Count, 16> counts;
constinit std::atomic<bool> ending{false};

std::atomic<int>& count_of_thread() noexcept {
  const auto self = static_cast<std::uint64_t>(pthread_self());
  return counts[(self * 0x9E3779B97F4A7C15U) >> 60U].calls;
}

/// A handler of exit(), which may run more than once.
void wait_for_calls() noexcept {
  ending = true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const Count& count : counts) {
    while (count.calls != 0 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

bool onednn_is_ending() noexcept { return ending.load(std::memory_order_relaxed); }

OnednnCall::OnednnCall() {
  std::atomic<int>& count = count_of_thread();
  count.fetch_add(1);
  if (ending) {
    count.fetch_sub(1);
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  threads_before_ = openmp().get != nullptr && openmp().set != nullptr ? openmp().get() : 1;
  if (threads_before_ > 1) openmp().set(1);
}

OnednnCall::~OnednnCall() {
  if (threads_before_ > 1) openmp().set(threads_before_);
  count_of_thread().fetch_sub(1);
}

void onednn_has_new_objects() {
  // In a child of fork() the other threads' calls are not there.
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] {
    for (Count& count : counts) count.calls = 0;
  });
  constexpr int kMost = 4096;  // shapes that change with every call must not fill the memory
  static constinit std::atomic<int> times{0};
  if (times.fetch_add(1, std::memory_order_relaxed) < kMost) static_cast<void>(std::atexit(wait_for_calls));
}

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
