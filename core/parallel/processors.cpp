// Affinity is asked for by a system call, limits of cgroups are read from the files of the system.
#include "mezzo/core/parallel/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>

namespace mezzo::detail {

namespace {

int processors_of_affinity() noexcept {
  // A machine with more processors than fit refuses the smaller sets.
  for (std::size_t most = 1024; most <= 1024 * 64; most *= 8) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const bool known = sched_getaffinity(0, CPU_ALLOC_SIZE(most), set) == 0;
    const int count = known ? CPU_COUNT_S(CPU_ALLOC_SIZE(most), set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Microseconds of processors' time per period, rounded up to processors; 0 where the text says no limit.
int processors_of_quota(const std::string& quota, const std::string& period) {
  char* end = nullptr;
  const double allowed = std::strtod(quota.c_str(), &end), each = std::strtod(period.c_str(), nullptr);
  if (end == quota.c_str() || !(allowed > 0) || !(each > 0)) return 0;
  return static_cast<int>(std::clamp(std::ceil(allowed / each), 1.0, 1e6));
}

/// The word at `index` of a file, none of a file that is not there.
std::string word_of(const std::string& path, int index = 0) {
  std::ifstream file(path);
  std::string word;
  for (int i = 0; i <= index; ++i) {
    if (!(file >> word)) return {};
  }
  return word;
}

/// The least limit of `group` below `mount` and of those above it.
template <class Limit>
int least_limit(const std::string& mount, std::string group, const Limit& limit_of) {
  int least = 0;
  while (true) {
    const int limit = limit_of(mount + group);
    if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
    if (group.empty() || group == "/") return least;
    group.resize(group.find_last_of('/'));
  }
}

}  // namespace

int threads_of_environment(const char* value) noexcept {
  if (value == nullptr) return 0;
  while (*value == ' ') ++value;
  int threads = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), threads);
  const bool number = error == std::errc() && (*end == '\0' || *end == ',' || *end == ' ');
  return number && threads > 0 ? threads : 0;
}

int processors_of_cgroups(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  int least = 0;
  // Lines read number:controllers:path, in v2 without controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.find('/', second) != second + 1) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    int limit = 0;
    if (controllers.empty()) {
      limit = least_limit(root + "/sys/fs/cgroup", group, [](const std::string& folder) {
        return processors_of_quota(word_of(folder + "/cpu.max"), word_of(folder + "/cpu.max", 1));
      });
    } else if ((',' + controllers + ',').find(",cpu,") != std::string::npos) {
      limit = least_limit(root + "/sys/fs/cgroup/" + controllers, group, [](const std::string& folder) {
        return processors_of_quota(word_of(folder + "/cpu.cfs_quota_us"),
                                   word_of(folder + "/cpu.cfs_period_us"));
      });
    }
    if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
  }
  return least;
}

int default_threads() noexcept {
  if (const int asked = threads_of_environment(std::getenv("OMP_NUM_THREADS")); asked > 0) return asked;
  const int processors = processors_of_affinity();
  try {
    const int limit = processors_of_cgroups("");
    return limit > 0 ? std::min(limit, processors) : processors;
  } catch (const std::exception&) {
    return processors;
  }
}

}  // namespace mezzo::detail
