// How many processors this process may use: its affinity by a system call, limits of its cgroups from files.
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

/// Whether one of the controllers, separated by commas, is this one.
bool names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == controller) return true;
    controllers.remove_prefix(end == std::string_view::npos ? controllers.size() : end + 1);
  }
  return false;
}

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

}  // namespace

// /proc/self/cgroup names the groups; lines read number:controllers:path, in version 2 without controllers.
std::vector<Cgroup> cgroups_of(std::string_view controller, const std::string& root) {
  std::vector<Cgroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.find('/', second) != second + 1) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && !names(controllers, controller)) continue;
    const std::string mount = root + "/sys/fs/cgroup" + (version2 ? "" : "/" + controllers);
    for (std::string group = line.substr(second + 1);; group.resize(group.find_last_of('/'))) {
      const bool top = group.empty() || group == "/";
      found.push_back({top ? mount : mount + group, version2});
      if (top) break;
    }
  }
  return found;
}

std::string word_of_file(const std::string& path, int index) {
  std::ifstream file(path);
  std::string word;
  for (int i = 0; i <= index; ++i) {
    if (!(file >> word)) return {};
  }
  return word;
}

int threads_of_environment(const char* value) noexcept {
  if (value == nullptr) return 0;
  while (*value == ' ') ++value;
  int threads = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), threads);
  const bool number = error == std::errc() && (*end == '\0' || *end == ',' || *end == ' ');
  return number && threads > 0 ? threads : 0;
}

int processors_of_cgroups(const std::string& root) {
  int least = 0;
  for (const auto& [folder, version2] : cgroups_of("cpu", root)) {
    const int limit = version2 ? processors_of_quota(word_of_file(folder + "/cpu.max"),
                                                     word_of_file(folder + "/cpu.max", 1))
                               : processors_of_quota(word_of_file(folder + "/cpu.cfs_quota_us"),
                                                     word_of_file(folder + "/cpu.cfs_period_us"));
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
