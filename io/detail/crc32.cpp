// Eight bytes a step, by eight tables: table k has what a byte becomes when k zero bytes follow it.
#include "mezzo/io/detail/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace mezzo::io::detail {

namespace {

using CrcTable = std::array<std::uint32_t, 256>;

constexpr std::array<CrcTable, 8> make_crc_tables() {
  constexpr std::uint32_t kPolynomial = 0xEDB88320U;  // bits reversed
  std::array<CrcTable, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
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

constexpr std::array<CrcTable, 8> kCrcTables = make_crc_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    word ^= crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xFFU];
  }
  for (const std::byte byte : bytes)
    crc = (crc >> 8U) ^ kCrcTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  return ~crc;
}

}  // namespace mezzo::io::detail
