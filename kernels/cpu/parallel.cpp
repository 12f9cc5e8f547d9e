// The OpenMP side of parallel_for.
#include "mezzo/kernels/cpu/parallel.h"

#include <atomic>
#include <cstdint>
#include <exception>

#include "mezzo/core/threads.h"

#ifdef _OPENMP
#include <omp.h>

#include <mutex>
#endif

namespace mezzo::kernels::cpu {
namespace {

#ifdef _OPENMP
/// Keeps, of the exceptions of all chunks, the one of the lowest chunk: no exception may leave an OpenMP
/// region.
class FirstError {
 public:
  void store(std::int64_t chunk) noexcept {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && chunk >= chunk_) return;
    chunk_ = chunk;
    error_ = std::current_exception();
    any_.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t chunk_ = 0;
  std::atomic<bool> any_{false};
};
#endif

}  // namespace

bool in_parallel() {
#ifdef _OPENMP
  return omp_in_parallel() != 0;
#else
  return false;
#endif
}

namespace detail {

void run_chunks(std::int64_t chunks, bool on_demand, ChunkFunction function, void* context) {
#ifdef _OPENMP
  const int threads = static_cast<int>(std::min<std::int64_t>(get_num_threads(), chunks));
  if (threads > 1 && !in_parallel()) {
    FirstError error;
    const auto run = [&](std::int64_t chunk) {
      if (error.any()) return;
      try {
        function(context, chunk);
      } catch (...) {
        error.store(chunk);
      }
    };
    if (on_demand) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    }
    error.rethrow();
    return;
  }
#endif
  static_cast<void>(on_demand);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk);
}

}  // namespace detail
}  // namespace mezzo::kernels::cpu
