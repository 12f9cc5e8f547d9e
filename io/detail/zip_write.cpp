// Writing zip archives: sizes and sums are known before an entry is written, so nothing is written twice.
#include <algorithm>
#include <cstring>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/io/detail/zip.h"
#include "mezzo/io/detail/zip_records.h"

namespace mezzo::io::detail {

namespace {

constexpr std::size_t kMaxZipName = 60'000;
constexpr std::uint16_t kFirstDay = 0x21;  // 1980-01-01
constexpr std::uint16_t kVersion = 20, kZip64Version = 45;
/// The extra field that only fills room, as PyTorch's files have it.
constexpr std::uint16_t kPadding = 0x4246;

/// Appends numbers as the format has them: little-endian.
template <class... T>
void put(std::string& text, T... numbers) {
  const auto one = [&text](auto number) {
    char bytes[sizeof(number)];
    std::memcpy(bytes, &number, sizeof(number));
    text.append(bytes, sizeof(number));
  };
  (one(numbers), ...);
}

std::uint16_t low16(std::uint64_t number) { return static_cast<std::uint16_t>(number); }
std::uint32_t low32(std::uint64_t number) { return static_cast<std::uint32_t>(number); }

/// An entry as its two headers say it.
struct Written {
  const std::string& name;
  ZipMethod method;
  std::uint32_t crc;
  std::uint64_t packed_size, size, header;
};

/// The fields that both headers share, from the version that is needed to the length of the name.
void put_common(std::string& text, const Written& entry, bool is_wide, std::uint32_t packed,
                std::uint32_t size) {
  const bool is_ascii =
      std::all_of(entry.name.begin(), entry.name.end(), [](char c) { return (c & 0x80) == 0; });
  put(text, is_wide ? kZip64Version : kVersion, is_ascii ? std::uint16_t{0} : kUtf8Flag,
      static_cast<std::uint16_t>(entry.method), std::uint16_t{0}, kFirstDay, entry.crc, packed, size,
      low16(entry.name.size()));
}

std::string local_header(const Written& entry, std::uint64_t zip64_from, std::size_t alignment) {
  const bool is_wide = entry.size >= zip64_from || entry.packed_size >= zip64_from;
  std::string extra;
  if (is_wide) put(extra, kZip64Field, std::uint16_t{16}, entry.size, entry.packed_size);
  const std::uint64_t begin = entry.header + kLocalSize + entry.name.size() + extra.size();
  if (begin % alignment != 0) {
    std::uint64_t filled = alignment - begin % alignment;
    while (filled < 4) filled += alignment;
    put(extra, kPadding, low16(filled - 4));
    extra.append(filled - 4, 'Z');
  }
  std::string text;
  put(text, kLocalSignature);
  put_common(text, entry, is_wide, is_wide ? kNone32 : low32(entry.packed_size),
             is_wide ? kNone32 : low32(entry.size));
  put(text, low16(extra.size()));
  return text + entry.name + extra;
}

void put_directory(std::string& text, const Written& entry, std::uint64_t zip64_from) {
  std::string wide;
  const auto narrow = [&](std::uint64_t number) {
    if (number < zip64_from) return low32(number);
    put(wide, number);
    return kNone32;
  };
  const std::uint32_t size = narrow(entry.size), packed = narrow(entry.packed_size);
  const std::uint32_t header = narrow(entry.header);
  std::string extra;
  if (!wide.empty()) put(extra, kZip64Field, low16(wide.size()));
  extra += wide;
  put(text, kDirectorySignature, wide.empty() ? kVersion : kZip64Version);
  put_common(text, entry, !wide.empty(), packed, size);
  put(text, low16(extra.size()), std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, std::uint32_t{0},
      header);
  text += entry.name + extra;
}

}  // namespace

void ZipWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& op, const std::string& name,
                    std::span<const std::span<const std::byte>> parts, ZipMethod method,
                    std::size_t alignment) {
  if (!is_valid_utf8(name) || name.size() > kMaxZipName) {
    throw IoError(op, "a name in UTF-8 of at most " + std::to_string(kMaxZipName) + " bytes", quote(name),
                  "use another name");
  }
  Written entry{.name = name, .method = method, .crc = 0, .packed_size = 0, .size = 0, .header = at_};
  for (const std::span<const std::byte> part : parts) {
    entry.crc = crc32(part, entry.crc);
    entry.size += part.size();
  }
  std::vector<std::byte> packed;
  if (method == ZipMethod::deflated) {
    Deflater deflater(op, DeflateFrame::raw);
    for (const std::span<const std::byte> part : parts) deflater.write(part, packed);
    deflater.finish(packed);
  }
  entry.packed_size = method == ZipMethod::deflated ? packed.size() : entry.size;
  write(local_header(entry, zip64_from_, alignment));
  if (method == ZipMethod::deflated) {
    write(packed);
  } else {
    for (const std::span<const std::byte> part : parts) write(part);
  }
  put_directory(directory_, entry, zip64_from_);
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = at_, size = directory_.size();
  write(directory_);
  const bool is_wide =
      count_ >= std::min<std::uint64_t>(kNone16, zip64_from_) || begin >= zip64_from_ || size >= zip64_from_;
  std::string end;
  if (is_wide) {
    put(end, kZip64EndSignature, std::uint64_t{kZip64EndSize - 12}, kZip64Version, kZip64Version,
        std::uint32_t{0}, std::uint32_t{0}, count_, count_, size, begin);
    put(end, kZip64LocatorSignature, std::uint32_t{0}, at_, std::uint32_t{1});
  }
  put(end, kEndSignature, std::uint32_t{0}, low16(is_wide ? kNone16 : count_),
      low16(is_wide ? kNone16 : count_), is_wide ? kNone32 : low32(size), is_wide ? kNone32 : low32(begin),
      std::uint16_t{0});
  write(end);
}

}  // namespace mezzo::io::detail
