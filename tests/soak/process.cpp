// Read from /proc and from the allocator.
#include "mezzo/tests/soak/process.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "mezzo/core/memory/allocator.h"

namespace mezzo::soak {

namespace {

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

}  // namespace

Process look_at_process() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {.mebibytes = static_cast<double>(resident) * page / (1 << 20),
          .files = entries_of("/proc/self/fd"),
          .threads = entries_of("/proc/self/task"),
          .tensor_bytes = memory_stats(Device::cpu()).current};
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace mezzo::soak
