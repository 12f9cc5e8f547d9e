// The limits of cgroups. Version 2 has one for memory and one for swap; version 1 has one for memory and,
// where swap is counted, one for their sum.
#include "mezzo/core/memory/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "mezzo/core/parallel/cgroup.h"

namespace mezzo::detail {

namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// The number in a file; kNone where there is none, which "max" and version 1's 2^63 - 4096 count as.
std::int64_t bytes_of_file(const std::string& path) {
  const std::string word = word_of_file(path);
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
  const bool number = error == std::errc() && end == word.data() + word.size() && bytes >= 0;
  return number && bytes < kNone / 2 ? bytes : kNone;
}

std::int64_t bytes_of_swap(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SwapTotal:")) continue;
    const char* digits = line.data() + std::min(line.find_first_of("0123456789"), line.size());
    std::from_chars(digits, line.data() + line.size(), kib);
  }
  return std::clamp<std::int64_t>(kib, 0, kNone / 4096) * 1024;
}

}  // namespace

std::int64_t memory_of_cgroups(const std::string& root) {
  std::int64_t least = kNone;
  for (const auto& [folder, version2] : cgroups_of("memory", root)) {
    const std::int64_t memory = bytes_of_file(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (memory == kNone) continue;
    const std::int64_t swap = bytes_of_swap(root);
    const std::int64_t limit =
        version2 ? memory + std::min(swap, bytes_of_file(folder + "/memory.swap.max"))
                 : std::min(memory + swap, bytes_of_file(folder + "/memory.memsw.limit_in_bytes"));
    least = std::min(least, limit);
  }
  return least == kNone ? 0 : std::max<std::int64_t>(least, 1);
}

}  // namespace mezzo::detail
