// Which tensors of a file are asked for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::io::detail {

/// For each of the names in a file, whether it is one of `wanted` or begins with `prefix`; all are where both
/// say nothing. Throws: IoError, with the nearest name that there is, for one of `wanted` and a prefix that
/// are not there.
[[nodiscard]] std::vector<bool> select(const std::string& op, const std::vector<std::string>& wanted,
                                       const std::string& prefix, std::span<const std::string_view> names);

}  // namespace mezzo::io::detail
