// CRC-32C by a table of one byte.
#include "mezzo/train/logging/crc32c.h"

#include <array>

namespace mezzo::train::detail {

namespace {

constexpr std::array<std::uint32_t, 256> crc32c_table() {
  constexpr std::uint32_t kReflected = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? (value >> 1U) ^ kReflected : value >> 1U;
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrc32cTable = crc32c_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes)
    crc = (crc >> 8U) ^ kCrc32cTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

}  // namespace mezzo::train::detail
