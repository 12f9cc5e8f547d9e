// What a file is that is not what it was taken for, told by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io::detail {

/// Throws: IoError `op: expected <expected>, got <what begins so>; <what to do>` where `begin`, the first
/// bytes of a file (8 or more tell most), are those of a Git LFS pointer, an HTML page, JSON or another
/// format that is known, unless `expected` begins with its name. Otherwise nothing happens.
void refuse_other_file(const std::string& op, std::string_view expected, std::span<const std::byte> begin);

}  // namespace mezzo::io::detail
