// The calls of oneDNN that run are counted, in several places so that threads do not wait for each other.
// Empty in a build without oneDNN.
#ifdef MEZZO_HAVE_ONEDNN

#include "mezzo/kernels/cpu/onednn.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {

namespace {

/// Get and set the number of OpenMP threads of the calling thread.
struct OpenMp {
  int (*get)() = reinterpret_cast<int (*)()>(openmp_function("omp_get_max_threads"));
  void (*set)(int) = reinterpret_cast<void (*)(int)>(openmp_function("omp_set_num_threads"));
};
const OpenMp& openmp() {
  static const OpenMp there;
  return there;
}

struct alignas(64) Count {
  std::atomic<int> calls{0};
};
constinit std::array<Count, 16> counts;
/// Calls may not begin while this is not 0: kEnding where the process ends, and kForking for each fork()
/// under way.
constinit std::atomic<int> closed{0};
constexpr int kEnding = 1, kForking = 2;
constinit thread_local bool in_call = false;

std::atomic<int>& count_of_thread() noexcept {
  const auto self = static_cast<std::uint64_t>(pthread_self());
  return counts[(self * 0x9E3779B97F4A7C15U) >> 60U].calls;
}

/// Returns when no other thread is in a call, or after 10 s.
void wait_for_others() noexcept {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const std::atomic<int>* const own = in_call ? &count_of_thread() : nullptr;
  for (const Count& count : counts) {
    const int mine = &count.calls == own ? 1 : 0;
    while (count.calls != mine && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// A handler of exit(), which may run more than once.
void wait_for_calls() noexcept {
  closed.fetch_or(kEnding);
  wait_for_others();
}

/// Around a fork(): the child has no thread that could give back a lock of oneDNN's, and the other threads'
/// calls are not there.
void hold_calls() noexcept {
  static_cast<void>(openmp());  // the child must not find it half made
  closed.fetch_add(kForking);
  wait_for_others();
}
void release_calls() noexcept { closed.fetch_sub(kForking); }
void forget_calls() noexcept {
  for (Count& count : counts) count.calls = 0;
  if (in_call) count_of_thread() = 1;
  closed.fetch_and(kEnding);
}

[[maybe_unused]] const bool held_over_fork = [] {
  mezzo::detail::handlers_around_allocator = {hold_calls, release_calls, forget_calls};
  return true;
}();

}  // namespace

bool onednn_is_ending() noexcept { return (closed.load(std::memory_order_relaxed) & kEnding) != 0; }

OnednnCall::OnednnCall() {
  std::atomic<int>& count = count_of_thread();
  count.fetch_add(1);
  while (const int why = closed) {
    count.fetch_sub(1);
    if ((why & kEnding) != 0)
      std::this_thread::sleep_for(std::chrono::hours(1));
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    count.fetch_add(1);
  }
  in_call = true;
  threads_before_ = openmp().get != nullptr && openmp().set != nullptr ? openmp().get() : 1;
  if (threads_before_ > 1) openmp().set(1);
}

OnednnCall::~OnednnCall() {
  if (threads_before_ > 1) openmp().set(threads_before_);
  in_call = false;
  count_of_thread().fetch_sub(1);
}

void onednn_has_new_objects() {
  constexpr int kMost = 4096;  // shapes that change with every call must not fill the memory
  static constinit std::atomic<int> times{0};
  if (times.fetch_add(1, std::memory_order_relaxed) < kMost) static_cast<void>(std::atexit(wait_for_calls));
}

}  // namespace mezzo::kernels::cpu

#endif  // MEZZO_HAVE_ONEDNN
