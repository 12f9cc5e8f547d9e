// The limits of cgroups. Version 2 has one for memory and one for swap; version 1 has one for memory and,
// where swap is counted, one for their sum.
#include "mezzo/core/memory/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "mezzo/core/parallel/processors.h"

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

/// The sum of numbers of these names in a file of lines "name number"; 0 for those that are not there.
std::int64_t sum_in_file(const std::string& path, std::initializer_list<std::string_view> names) {
  std::ifstream file(path);
  std::int64_t sum = 0, number = 0;
  for (std::string name; file >> name >> number;) {
    if (std::find(names.begin(), names.end(), name) != names.end()) sum += number;
  }
  return sum;
}

std::int64_t zero_for_none(std::int64_t bytes) { return bytes == kNone ? 0 : bytes; }

CgroupMemory memory_of(const std::string& folder, bool version2, const std::string& root) {
  const std::int64_t memory = bytes_of_file(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (memory == kNone) return {};
  const std::int64_t swap = bytes_of_swap(root);
  const std::int64_t granted =
      version2 ? memory + std::min(swap, bytes_of_file(folder + "/memory.swap.max"))
               : std::min(memory + swap, bytes_of_file(folder + "/memory.memsw.limit_in_bytes"));
  const std::int64_t used =
      version2 ? zero_for_none(bytes_of_file(folder + "/memory.current")) +
                     zero_for_none(bytes_of_file(folder + "/memory.swap.current"))
               : std::max(zero_for_none(bytes_of_file(folder + "/memory.usage_in_bytes")),
                          zero_for_none(bytes_of_file(folder + "/memory.memsw.usage_in_bytes")));
  const std::string stat = folder + "/memory.stat";
  const std::int64_t files = version2 ? sum_in_file(stat, {"active_file", "inactive_file"})
                                      : sum_in_file(stat, {"total_active_file", "total_inactive_file"});
  return {std::max<std::int64_t>(granted, 1), std::max<std::int64_t>(used - files, 0)};
}

}  // namespace

CgroupMemory memory_of_cgroups(const std::string& root) {
  CgroupMemory least;
  for (const auto& [folder, version2] : cgroups_of("memory", root)) {
    const CgroupMemory memory = memory_of(folder, version2, root);
    const bool is_less = least.granted == 0 || memory.granted - memory.used < least.granted - least.used;
    if (memory.granted > 0 && is_less) least = memory;
  }
  return least;
}

}  // namespace mezzo::detail
