// Names are looked up in one pass over the file's.
#include "mezzo/io/detail/selection.h"

#include <set>

#include "mezzo/core/error.h"
#include "mezzo/core/text/nearest_name.h"
#include "mezzo/core/value.h"

namespace mezzo::io::detail {

std::vector<bool> select(const std::string& op, const std::vector<std::string>& wanted,
                         const std::string& prefix, std::span<const std::string_view> names) {
  const bool all = wanted.empty() && prefix.empty();
  std::set<std::string_view> missing(wanted.begin(), wanted.end());
  const std::set<std::string_view> known = missing;
  bool has_prefix = prefix.empty();
  std::vector<bool> selected;
  for (const std::string_view name : names) {
    const bool begins_so = !prefix.empty() && name.starts_with(prefix);
    has_prefix = has_prefix || begins_so;
    missing.erase(name);
    selected.push_back(all || begins_so || known.contains(name));
  }
  if (missing.empty() && has_prefix) return selected;
  const std::string_view lost = missing.empty() ? std::string_view(prefix) : *missing.begin();
  throw IoError(
      op, std::string(missing.empty() ? "tensors whose names begin with " : "a tensor ") + quote(lost),
      names.empty() ? "a file without tensors"
                    : "none; the nearest name is " + quote(mezzo::detail::nearest_name(lost, names)),
      "check the names that are asked for");
}

}  // namespace mezzo::io::detail
