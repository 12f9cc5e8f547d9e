// What two names share is counted from both ends: a letter that is wrong, a prefix that is missing or too
// much leaves the rest.
#include "mezzo/core/text/nearest_name.h"

#include <algorithm>
#include <cstddef>

namespace mezzo::detail {

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  const auto distance = [name](std::string_view other) {
    const std::size_t shorter = std::min(name.size(), other.size());
    std::size_t begin = 0, end = 0;
    while (begin < shorter && name[begin] == other[begin]) ++begin;
    while (begin + end < shorter && name[name.size() - 1 - end] == other[other.size() - 1 - end]) ++end;
    return name.size() + other.size() - 2 * (begin + end);
  };
  std::string_view nearest;
  std::size_t least = 0;
  for (const std::string_view other : names) {
    const std::size_t one = distance(other);
    if (nearest.data() != nullptr && one >= least) continue;
    nearest = other;
    least = one;
  }
  return nearest;
}

}  // namespace mezzo::detail
