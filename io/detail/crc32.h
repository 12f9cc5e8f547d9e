// CRC-32 as zip, gzip and PNG have it, and CRC-32C. Our own, so that zip files whose entries are stored need
// no zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mezzo::io::detail {

/// The checksum of bytes that follow those with the checksum `before`. Source: ISO 3309; zlib's crc32.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;
/// The same of Castagnoli's polynomial, 0x1EDC6F41, reflected. Source: RFC 3720.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// crc32c as TFRecord files store it: rotated right by 15 bits, plus 0xA282EAD8.
[[nodiscard]] inline std::uint32_t masked_crc32c(std::span<const std::byte> bytes) noexcept {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace mezzo::io::detail
