// Look-ups go through the vector: who looks up many names has a map.
#include "mezzo/core/named_tensors.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/core/text/nearest_name.h"
#include "mezzo/core/value.h"

namespace mezzo {

const Tensor& NamedTensors::at(std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [name](const auto& one) { return one.first == name; });
  if (found != end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [other, tensor] : *this) names.push_back(other);
  throw ValueError(
      "NamedTensors.at", "a tensor " + quote(name),
      empty() ? "no tensors" : "none; the nearest name is " + quote(detail::nearest_name(name, names)),
      "contains() says whether a name is there");
}

bool NamedTensors::contains(std::string_view name) const noexcept {
  return std::any_of(begin(), end(), [name](const auto& one) { return one.first == name; });
}

std::size_t NamedTensors::erase(std::string_view name) {
  return std::erase_if(static_cast<Pairs&>(*this), [name](const auto& one) { return one.first == name; });
}

NamedTensors NamedTensors::with_prefix(std::string_view prefix) const {
  NamedTensors result;
  for (const auto& [name, tensor] : *this) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  return result;
}

NamedTensors NamedTensors::add_prefix(std::string_view prefix) const {
  NamedTensors result;
  for (const auto& [name, tensor] : *this) result.emplace_back(std::string(prefix) + name, tensor);
  return result;
}

}  // namespace mezzo
