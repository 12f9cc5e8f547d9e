// Idle threads look for work for 50 us, which is longer than most steps take between two loops, and then
// sleep. Where other processes preempt them, loops do with fewer for a while. There is no end of a pool: its
// threads live as long as the process, and static objects may use it while they are destroyed.
#include "mezzo/core/parallel/thread_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "mezzo/core/parallel/alone.h"
#include "mezzo/core/parallel/helper_backoff.h"
#include "mezzo/core/parallel/loop.h"
#include "mezzo/core/parallel/signals_blocked.h"

namespace mezzo::detail {

namespace {

/// Loops that have helpers at the same time, each of another caller.
constexpr int kRegions = 8;
/// More are not started whatever set_num_threads says.
constexpr int kMostHelpers = 1023;
constexpr std::chrono::microseconds kSpin{50};
/// Processes of others run for milliseconds at a time, threads of the system for less.
constexpr std::chrono::milliseconds kLongWait{1};

thread_local bool inside = false;

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

void run_alone(std::int64_t chunks, ChunkFunction function, void* context) {
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk);
}

/// Whether `done` became true within kSpin.
template <class F>
bool spin_until(F done) noexcept {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

/// How often the system took the calling thread off its processor to run another.
std::int64_t preemptions() noexcept {
#if defined(RUSAGE_THREAD)
  rusage used = {};
  if (getrusage(RUSAGE_THREAD, &used) == 0) return used.ru_nivcsw;
#endif
  return 0;
}

class ThreadPool {
 public:
  void run(std::int64_t chunks, int threads, ChunkFunction function, void* context);

 private:
  /// Counts a thread that works, while it lives.
  class Working : NoCopy {
   public:
    explicit Working(std::atomic<int>& count) noexcept
        : count_(count), others_(count.fetch_add(1, std::memory_order_relaxed)) {}
    ~Working() { count_.fetch_sub(1, std::memory_order_relaxed); }
    [[nodiscard]] int others() const noexcept { return others_; }

   private:
    std::atomic<int>& count_;
    int others_;
  };
  struct Helper {
    ThreadPool* pool;
    int index;
    std::int64_t preemptions = 0;  // when a caller slept for want of it last
  };

  [[nodiscard]] Region* free_region() noexcept;
  void call_helpers(int seats) noexcept;
  void start(int helpers) noexcept;
  [[nodiscard]] bool start_one(int index) noexcept;
  void help(Helper helper) noexcept;
  [[nodiscard]] bool help_once(Helper& helper) noexcept;
  void wait_for_work(std::uint32_t seen, int index) noexcept;

  Region regions_[kRegions];
  alignas(kCacheLine) std::atomic<std::uint32_t> loops_{0};  // how many have begun: helpers wait for a change
  alignas(kCacheLine) std::atomic<int> working_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<int> helpers_{0};
  std::atomic<int> threads_{0};  // of the last loop; helpers beyond do not spin
  HelperBackoff backoff_;
  std::mutex starting_;
};

Region* ThreadPool::free_region() noexcept {
  for (Region& region : regions_) {
    if (region.take()) return &region;
  }
  return nullptr;
}

void ThreadPool::run(std::int64_t chunks, int threads, ChunkFunction function, void* context) {
  const Working caller(working_);
  const int free = std::min(threads - 1 - caller.others() - backoff_.preempted(), kMostHelpers);
  const int seats = static_cast<int>(std::min<std::int64_t>(free, chunks - 1));
  Region* const region = seats > 0 ? free_region() : nullptr;
  Share* const shares = region != nullptr ? region->shares(seats + 1) : nullptr;
  if (shares == nullptr) {
    if (region != nullptr) region->give_back();
    return run_alone(chunks, function, context);
  }
  start(seats);
  threads_.store(threads, std::memory_order_relaxed);
  Loop loop(chunks, function, context, shares, seats + 1);
  region->open(loop, seats);
  call_helpers(seats);
  inside = true;
  loop.work(0);
  inside = false;
  if (region->close()) backoff_.add_preempted(HelperBackoff::Clock::now());
  region->give_back();
  loop.rethrow();
}

void ThreadPool::call_helpers(int seats) noexcept {
  loops_.fetch_add(1);  // before sleeping_ is read, as wait_for_work writes that before it reads loops_
  const int sleeping = sleeping_.load();
  if (sleeping == 0) return;
  if (sleeping <= seats) return loops_.notify_all();
  for (int i = 0; i < seats; ++i) loops_.notify_one();
}

void ThreadPool::start(int helpers) noexcept {
  if (helpers_.load(std::memory_order_relaxed) >= helpers) return;
  const std::lock_guard lock(starting_);
  const SignalsBlocked blocked;
  while (helpers_.load(std::memory_order_relaxed) < helpers) {
    // Where the system gives no more threads, the loop runs on those there are.
    if (!start_one(helpers_.load(std::memory_order_relaxed))) break;
    helpers_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool ThreadPool::start_one(int index) noexcept {
  std::unique_ptr<Helper> helper(new (std::nothrow) Helper{this, index});
  pthread_t thread = {};
  const auto begin = [](void* raw) -> void* {
    Helper self = *std::unique_ptr<Helper>(static_cast<Helper*>(raw));
    self.preemptions = preemptions();
    inside = true;
    self.pool->help(self);
    return nullptr;
  };
  if (helper == nullptr || pthread_create(&thread, nullptr, begin, helper.get()) != 0) return false;
  static_cast<void>(helper.release());
  pthread_setname_np(thread, "mezzo");
  pthread_detach(thread);
  return true;
}

void ThreadPool::help(Helper helper) noexcept {
  while (true) {
    const std::uint32_t seen = loops_.load();
    if (!help_once(helper)) wait_for_work(seen, helper.index);
  }
}

bool ThreadPool::help_once(Helper& helper) noexcept {
  for (Region& region : regions_) {
    Loop* const loop = region.join();
    if (loop == nullptr) continue;
    {
      const Working works(working_);
      loop->work(1 + helper.index % (loop->shares() - 1));
    }
    if (region.is_waited_for()) {
      const std::int64_t now = preemptions();
      if (std::exchange(helper.preemptions, now) != now) region.set_preempted();
    }
    region.leave();
    return true;
  }
  return false;
}

void ThreadPool::wait_for_work(std::uint32_t seen, int index) noexcept {
  const auto begun = [&] { return loops_.load(std::memory_order_relaxed) != seen; };
  if (index < threads_.load(std::memory_order_relaxed) - 1 && spin_until(begun)) return;
  sleeping_.fetch_add(1);
  loops_.wait(seen);
  sleeping_.fetch_sub(1);
}

std::atomic<ThreadPool*> pool{nullptr};

/// A child of fork() makes a pool of its own.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });

ThreadPool& the_pool() {
  ThreadPool* there = pool.load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  auto fresh = std::make_unique<ThreadPool>();
  if (pool.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *there;
}

}  // namespace

bool Region::close() noexcept {
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto empty = [this] { return (state_.load(std::memory_order_acquire) & kHelpers) == 0; };
  if (empty() || spin_until(empty)) return false;
  // Asleep, the caller leaves its processor to a helper that waits for one.
  const auto begin = std::chrono::steady_clock::now();
  std::uint32_t state = state_.fetch_or(kAsleep) | kAsleep;
  for (; (state & kHelpers) != 0; state = state_.load()) state_.wait(state);
  return (state & kPreempted) != 0 && std::chrono::steady_clock::now() - begin >= kLongWait;
}

bool in_parallel() noexcept { return inside; }

AloneScope::AloneScope() noexcept : before_(std::exchange(inside, true)) {}
AloneScope::~AloneScope() { inside = before_; }

void run_chunks(std::int64_t chunks, int threads, ChunkFunction function, void* context) {
  if (chunks <= 1 || inside || threads <= 1) return run_alone(chunks, function, context);
  the_pool().run(chunks, threads, function, context);
}

}  // namespace mezzo::detail
