// Big-endian elements of files to the machine's order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace mezzo::io::detail {

static_assert(std::endian::native == std::endian::little,
              "little-endian bytes of files are used as they are");

/// Reverses each run of `size` bytes; bytes.size() is a multiple of it.
inline void reverse_elements(std::span<std::byte> bytes, std::size_t size) noexcept {
  for (std::size_t i = 0; size > 1 && i < bytes.size(); i += size)
    std::ranges::reverse(bytes.subspan(i, size));
}

}  // namespace mezzo::io::detail
