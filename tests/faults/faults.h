// Calls to the system that fail when a test says so. The library of preload.cpp, which stands before libc in
// the process, counts the calls of one thread and lets the n-th fail. It also makes the process's clocks
// jump, and reads other files in place of the system's own.
#pragma once

#include <dlfcn.h>

#include <cerrno>
#include <cstdint>

namespace mezzo::test {

/// Kinds of calls, as bits.
enum FaultKind : std::uint32_t {
  kMemory = 1,  ///< malloc, calloc, realloc, aligned_alloc, posix_memalign, and so operator new
  kMap = 2,     ///< mmap
  kOpen = 4,    ///< open
  kRead = 8,
  kWrite = 16,
  kSync = 32,  ///< fsync
  kRename = 64,
};

enum class FaultAction : std::uint32_t {
  fail,         ///< gives `error`
  shorten,      ///< reads and writes move half of what was asked, one byte at least
  interrupt,    ///< gives EINTR, and does nothing
  kill_before,  ///< the process is killed as by kill -9 where it makes the call
  kill_after,   ///< ... once the call was made
};

/// What the library reads; one for the process.
struct FaultPlan {
  std::uint32_t kinds = 0;
  FaultAction action = FaultAction::fail;
  std::uint64_t first = 1;  ///< the call that it happens to, counted from 1
  bool all_after = false;   ///< and all behind it; for interrupt every other one
  int error = EIO;
  std::uint64_t calls = 0;  ///< of these kinds, since it was armed
};

}  // namespace mezzo::test

namespace mezzo::test {

/// Arms the plan for the calling thread; null disarms. Null where the library was not loaded.
inline auto arm_faults() {
  static const auto function =
      reinterpret_cast<void (*)(FaultPlan * plan)>(::dlsym(RTLD_DEFAULT, "mezzo_arm_faults"));
  return function;
}

/// Adds so many seconds to the clocks of the process from now on; the monotonic ones take only what is above
/// 0.
inline void jump_clocks(std::int64_t seconds) {
  reinterpret_cast<void (*)(std::int64_t)>(::dlsym(RTLD_DEFAULT, "mezzo_jump_clocks"))(seconds);
}

/// Opens root + path in place of what lies below /proc/self/cgroup, /proc/meminfo and /sys/fs/cgroup; null
/// ends it. The text must live on.
inline void redirect_system_files(const char* root) {
  reinterpret_cast<void (*)(const char*)>(::dlsym(RTLD_DEFAULT, "mezzo_redirect_system_files"))(root);
}

/// While it lives, calls of this thread fail by the plan.
class Faults {
 public:
  explicit Faults(FaultPlan plan) : plan_(plan) { arm_faults()(&plan_); }
  ~Faults() { arm_faults()(nullptr); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  [[nodiscard]] std::uint64_t calls() const { return plan_.calls; }

 private:
  FaultPlan plan_;
};

}  // namespace mezzo::test
