// CRC-32C (Castagnoli), which frames records of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace mezzo::train::detail {

/// Of the polynomial 0x1EDC6F41, reflected, as RFC 3720 has it.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes) noexcept;
/// As TFRecord files store it: rotated right by 15 bits, plus 0xA282EAD8.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes) noexcept;

}  // namespace mezzo::train::detail
