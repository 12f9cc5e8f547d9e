// Big-endian elements of files to the machine's order.
#pragma once

#include <bit>
#include <cstddef>
#include <span>

namespace mezzo::io::detail {

static_assert(std::endian::native == std::endian::little,
              "little-endian bytes of files are used as they are");

/// Reverses each run of `size` bytes; bytes.size() is a multiple of it.
void reverse_elements(std::span<std::byte> bytes, std::size_t size) noexcept;

}  // namespace mezzo::io::detail
