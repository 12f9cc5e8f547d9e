// Idle threads look for work for 50 us, which is longer than most steps take between two loops, and then
// sleep. Where other processes preempt them, loops do with fewer for a while. There is no end of a pool: its
// threads live as long as the process, and static objects may use it while they are destroyed.
#include "mezzo/core/parallel/thread_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "mezzo/core/activity.h"
#include "mezzo/core/parallel/float_environment.h"
#include "mezzo/core/parallel/helper_backoff.h"
#include "mezzo/core/parallel/signals_blocked.h"

namespace mezzo::detail {

namespace {

/// Apart by a line of the cache, so that threads do not slow each other down.
inline constexpr std::size_t kCacheLine = 64;

/// Of the exceptions of all chunks, the exception of the lowest chunk.
class FirstError {
 public:
  /// The exception that is being handled.
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

/// A contiguous part of a loop's chunks. Each thread that comes takes the next chunk.
struct alignas(kCacheLine) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;

  /// False when none is left.
  [[nodiscard]] bool take(std::int64_t& chunk) noexcept {
    if (next.load(std::memory_order_relaxed) >= end) return false;
    chunk = next.fetch_add(1, std::memory_order_relaxed);
    return chunk < end;
  }
};

/// Lives on its caller's stack for as long as a thread works on it.
class Loop {
 public:
  /// Cuts [0, chunks) into `count` shares.
  Loop(std::int64_t chunks, ChunkFunction function, void* context, Share* shares, int count) noexcept
      : function_(function), context_(context), shares_(shares), count_(count) {
    std::int64_t begin = 0;
    for (int i = 0; i < count; ++i) {
      shares[i].next.store(begin, std::memory_order_relaxed);
      begin += chunks / count + (i < chunks % count ? 1 : 0);
      shares[i].end = begin;
    }
  }

  /// Runs chunks until every chunk has been begun: the chunks of share `first` before all others.
  void work(int first) noexcept {
    const WithFloatEnvironment callers(environment_);
    for (int i = 0; i < count_; ++i) {
      Share& share = shares_[(first + i) % count_];
      for (std::int64_t chunk = 0; share.take(chunk);) run(chunk);
    }
  }
  [[nodiscard]] int shares() const noexcept { return count_; }
  void rethrow() const { error_.rethrow(); }

 private:
  void run(std::int64_t chunk) noexcept {
    if (error_.any()) return;
    try {
      function_(context_, chunk);
    } catch (...) {
      error_.store(chunk);
    }
  }

  ChunkFunction function_;
  void* context_;
  Share* shares_;
  int count_;
  FloatEnvironment environment_ = FloatEnvironment::current();
  FirstError error_;
};

/// Where helper threads find a loop to join. It outlives the loop, so a helper that comes late finds it
/// closed.
class alignas(kCacheLine) Region {
 public:
  /// Takes it for the calling thread. False when another thread has it.
  [[nodiscard]] bool take() noexcept {
    std::uint32_t free = 0;
    return state_.load(std::memory_order_relaxed) == 0 &&
           state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire);
  }
  void give_back() noexcept { state_.store(0, std::memory_order_release); }

  /// Memory for the shares of a loop; nullptr when the system has none left.
  [[nodiscard]] Share* shares(int count) noexcept {
    if (count > capacity_) {
      shares_.reset(new (std::nothrow) Share[static_cast<std::size_t>(count)]);
      capacity_ = shares_ != nullptr ? count : 0;
    }
    return shares_.get();
  }

  /// From now on up to `seats` helpers may join.
  void open(Loop& loop, int seats) noexcept {
    loop_ = &loop;
    state_.store(kTaken | kOpen | static_cast<std::uint32_t>(seats) * kSeat, std::memory_order_release);
  }
  /// Lets no more helpers join, and waits until the last one has left. True when that took long because the
  /// system had preempted one.
  bool close() noexcept;

  /// Joins the loop and returns it, or nullptr when it wants no more helpers.
  [[nodiscard]] Loop* join() noexcept {
    std::uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kOpen) != 0 && (state & kSeats) != 0) {
      if (state_.compare_exchange_weak(state, state - kSeat + kHelper, std::memory_order_acq_rel))
        return loop_;
    }
    return nullptr;
  }
  /// Whether the caller sleeps until helpers leave.
  [[nodiscard]] bool is_waited_for() const noexcept {
    return (state_.load(std::memory_order_relaxed) & kAsleep) != 0;
  }
  /// A helper that the caller sleeps for was preempted.
  void set_preempted() noexcept { state_.fetch_or(kPreempted, std::memory_order_relaxed); }
  void leave() noexcept {
    const std::uint32_t before = state_.fetch_sub(kHelper, std::memory_order_acq_rel);
    if ((before & kHelpers) == kHelper && (before & kOpen) == 0) state_.notify_one();
  }

 private:
  static constexpr std::uint32_t kTaken = 1, kOpen = 2, kAsleep = 4, kPreempted = 8;
  static constexpr std::uint32_t kSeat = 1U << 4, kSeats = 0x3fffU * kSeat;
  static constexpr std::uint32_t kHelper = 1U << 18, kHelpers = 0x3fffU * kHelper;

  /// The flags, seats that are free, helpers that are in.
  std::atomic<std::uint32_t> state_{0};
  Loop* loop_ = nullptr;
  std::unique_ptr<Share[]> shares_;
  int capacity_ = 0;
};

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
      const Activity activity(ActivityKind::worker, "helper");
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
