// Eight bytes a step, by eight tables: table k has what a byte becomes when k zero bytes follow it.
#include "mezzo/io/detail/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace mezzo::io::detail {

namespace {

using CrcTable = std::array<std::uint32_t, 256>;

/// Of a polynomial with its bits reversed.
constexpr std::array<CrcTable, 8> make_crc_tables(std::uint32_t polynomial) {
  std::array<CrcTable, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? polynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8U) ^ tables[0][crc & 0xFFU];
    }
  }
  return tables;
}

template <std::uint32_t kPolynomial>
std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  static constexpr std::array<CrcTable, 8> kTables = make_crc_tables(kPolynomial);
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xFFU];
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8U) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  return ~crc;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  return crc_of<0xEDB88320U>(bytes, before);
}
std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept { return crc_of<0x82F63B78U>(bytes, 0); }

}  // namespace mezzo::io::detail
