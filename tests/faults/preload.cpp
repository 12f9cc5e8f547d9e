// The library that is loaded before libc and stands in for some of its functions; see faults.h. Nothing here
// may allocate.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "mezzo/tests/faults/faults.h"

using mezzo::test::FaultAction;
using mezzo::test::FaultPlan;

namespace {

[[gnu::tls_model("initial-exec")]] thread_local FaultPlan* armed = nullptr;
std::atomic<std::int64_t> clocks_ahead{0}, monotonic_clocks_ahead{0};
std::atomic<const char*> root_of_system{nullptr};

using Fopen = std::FILE* (*)(const char*, const char*);
const auto next_fopen = reinterpret_cast<Fopen>(::dlsym(RTLD_NEXT, "fopen"));

bool starts_with(const char* text, const char* start) {
  return std::strncmp(text, start, std::strlen(start)) == 0;
}

/// The plan, where this call is one that something happens to.
FaultPlan* hit(std::uint32_t kind) {
  FaultPlan* const plan = armed;
  if (plan == nullptr || (plan->kinds & kind) == 0) return nullptr;
  const std::uint64_t call = ++plan->calls;
  if (plan->action == FaultAction::interrupt && plan->all_after) return call % 2 == 1 ? plan : nullptr;
  return call == plan->first || (plan->all_after && call > plan->first) ? plan : nullptr;
}

/// Makes a call of the system, or what the plan says instead.
template <class F>
auto make(std::uint32_t kind, decltype(std::declval<F>()()) failed, F call) {
  FaultPlan* const plan = hit(kind);
  if (plan == nullptr || plan->action == FaultAction::shorten) return call();
  if (plan->action == FaultAction::kill_before) ::raise(SIGKILL);
  if (plan->action == FaultAction::kill_after) {
    static_cast<void>(call());
    ::raise(SIGKILL);
  }
  errno = plan->action == FaultAction::interrupt ? EINTR : plan->error;
  return failed;
}

/// How many of `bytes` a read or write may move.
std::size_t allowed(std::size_t bytes) {
  const bool shortened = armed != nullptr && armed->action == FaultAction::shorten;
  return shortened ? std::max<std::size_t>(bytes / 2, std::min<std::size_t>(bytes, 1)) : bytes;
}

bool no_memory() {
  if (hit(mezzo::test::kMemory) == nullptr) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

// No header declares these with the attributes that libc's own have, which differ from version to version.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void mezzo_arm_faults(FaultPlan* plan) { armed = plan; }
void mezzo_jump_clocks(std::int64_t seconds) {
  clocks_ahead += seconds;
  monotonic_clocks_ahead += std::max<std::int64_t>(seconds, 0);
}
void mezzo_redirect_system_files(const char* root) { root_of_system = root; }

int clock_gettime(clockid_t clock, timespec* time) {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += clocks_ahead;
  if (result == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME))
    time->tv_sec += monotonic_clocks_ahead;
  return result;
}

// What std::ifstream opens its files by: fopen64 in g++ 12's library, fopen in g++ 14's.
std::FILE* fopen(const char* path, const char* mode) {
  char other[4096];
  const char* const root = root_of_system;
  const bool of_system = starts_with(path, "/proc/self/cgroup") || starts_with(path, "/proc/meminfo") ||
                         starts_with(path, "/sys/fs/cgroup");
  if (root != nullptr && of_system) {
    std::snprintf(other, sizeof(other), "%s%s", root, path);
    path = other;
  }
  return next_fopen(path, mode);
}
std::FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

void* malloc(std::size_t bytes) { return no_memory() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) {
  return no_memory() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  return no_memory() ? nullptr : __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return no_memory() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return no_memory() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  void* const given = no_memory() ? nullptr : __libc_memalign(alignment, bytes);
  if (given == nullptr) return ENOMEM;
  *memory = given;
  return 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return make(mezzo::test::kMap, MAP_FAILED, [&] {
    return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  });
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  return make(mezzo::test::kOpen, -1,
              [&] { return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode)); });
}

ssize_t read(int file, void* memory, std::size_t bytes) {
  return make(mezzo::test::kRead, ssize_t{-1},
              [&] { return static_cast<ssize_t>(::syscall(SYS_read, file, memory, allowed(bytes))); });
}

ssize_t pread(int file, void* memory, std::size_t bytes, off_t offset) {
  return make(mezzo::test::kRead, ssize_t{-1}, [&] {
    return static_cast<ssize_t>(::syscall(SYS_pread64, file, memory, allowed(bytes), offset));
  });
}

ssize_t write(int file, const void* memory, std::size_t bytes) {
  return make(mezzo::test::kWrite, ssize_t{-1},
              [&] { return static_cast<ssize_t>(::syscall(SYS_write, file, memory, allowed(bytes))); });
}

int fsync(int file) {
  return make(mezzo::test::kSync, -1, [&] { return static_cast<int>(::syscall(SYS_fsync, file)); });
}

int rename(const char* from, const char* to) {
  return make(mezzo::test::kRename, -1,
              [&] { return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)); });
}
}
