// The records of zip archives that reader and writer must agree on. Source: PKWARE's APPNOTE.TXT 6.3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mezzo::io::detail {

inline constexpr std::uint32_t kLocalSignature = 0x04034B50U, kDirectorySignature = 0x02014B50U,
                               kEndSignature = 0x06054B50U, kZip64EndSignature = 0x06064B50U,
                               kZip64LocatorSignature = 0x07064B50U;
/// Bytes of the records without names, extra fields and comments.
inline constexpr std::size_t kLocalSize = 30, kDirectorySize = 46, kEndSize = 22, kZip64EndSize = 56,
                             kZip64LocatorSize = 20;
/// The extra field that has sizes and offsets of 64 bits.
inline constexpr std::uint16_t kZip64Field = 1;
/// The placeholders of 16 and 32 bits for a number that is in ZIP64's records.
inline constexpr std::uint32_t kNone16 = 0xFFFFU, kNone32 = 0xFFFFFFFFU;
/// Flags: encrypted, strongly encrypted, directory encrypted; names in UTF-8.
inline constexpr std::uint16_t kEncryptedFlags = 0x2041U, kUtf8Flag = 0x0800U;

}  // namespace mezzo::io::detail
