// CRC-32 as zip, gzip and PNG have it. Our own, so that zip files whose entries are stored need no zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mezzo::io::detail {

/// The checksum of bytes that follow those with the checksum `before`. Source: ISO 3309; zlib's crc32.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace mezzo::io::detail
