// CRC-32C, which frames records of TFRecord files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mezzo/io/detail/crc32.h"

namespace mezzo::train::detail {

[[nodiscard]] inline std::uint32_t crc32c(std::string_view bytes) noexcept {
  return io::detail::crc32c(std::as_bytes(std::span(bytes)));
}
/// As TFRecord files store it: rotated right by 15 bits, plus 0xA282EAD8.
[[nodiscard]] inline std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace mezzo::train::detail
