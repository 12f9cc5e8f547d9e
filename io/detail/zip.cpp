// Reading zip archives: end record, directory, local headers, each checked against the bytes there are before
// a byte of an entry is handed out. Writing them: sizes and sums are known before an entry is written, so
// nothing is written twice.
#include "mezzo/io/detail/zip.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/crc32.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/io/detail/file_kind.h"

namespace mezzo::io::detail {

namespace {

// The records of zip archives, PKWARE's APPNOTE.TXT 6.3.
constexpr std::uint32_t kDirectorySignature = 0x02014B50U, kEndSignature = 0x06054B50U,
                        kZip64EndSignature = 0x06064B50U, kZip64LocatorSignature = 0x07064B50U;
/// Bytes of the records without names, extra fields and comments.
constexpr std::size_t kLocalSize = 30, kDirectorySize = 46, kEndSize = 22, kZip64EndSize = 56,
                      kZip64LocatorSize = 20;
/// The extra field that has sizes and offsets of 64 bits.
constexpr std::uint16_t kZip64Field = 1;
/// The placeholders of 16 and 32 bits for a number that is in ZIP64's records.
constexpr std::uint32_t kNone16 = 0xFFFFU, kNone32 = 0xFFFFFFFFU;
/// Flags: encrypted, strongly encrypted, directory encrypted; names in UTF-8.
constexpr std::uint16_t kEncryptedFlags = 0x2041U, kUtf8Flag = 0x0800U;

constexpr std::size_t kMaxComment = 0xFFFF;

/// The number of type T at `at`, which is within `bytes`.
template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// The field of ZIP64's extra data, or nothing; `is_sound` says whether the fields fill `extra`.
std::span<const std::byte> zip64_field(std::span<const std::byte> extra, bool& is_sound) {
  is_sound = true;
  while (extra.size() >= 4) {
    const std::size_t length = number_at<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (number_at<std::uint16_t>(extra, 0) == kZip64Field) return extra.subspan(4, length);
    extra = extra.subspan(4 + length);
  }
  is_sound = extra.size() < 4;  // some programs pad with a few bytes
  return {};
}

/// The content of an entry: counted and summed up while it is read.
class EntrySource final : public ByteSource {
 public:
  EntrySource(std::unique_ptr<ByteSource> source, const ZipEntry& entry, bool check_sum)
      : ByteSource(source->op()), source_(std::move(source)), entry_(entry), check_sum_(check_sum) {}

  [[nodiscard]] std::size_t read_some(std::span<std::byte> out) override {
    if (out.empty()) return 0;
    std::size_t count = 0;
    if (const std::uint64_t rest = entry_.size - given_; rest > 0) {
      out = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), rest)));
      count = source_->read_some(out);
      if (count == 0) refuse(std::to_string(entry_.size) + " bytes", std::to_string(given_));
      if (check_sum_) crc_ = crc32(out.first(count), crc_);
      given_ += count;
    }
    if (given_ == entry_.size && !is_checked_) finish();
    return count;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const {
    throw IoError(op(), expected + " in entry " + quote(entry_.name), got, "fetch or write the file again");
  }
  void finish() {
    is_checked_ = true;
    std::byte next{};
    if (source_->read_some({&next, 1}) != 0) refuse(std::to_string(entry_.size) + " bytes", "more");
    if (check_sum_ && crc_ != entry_.crc) {
      refuse("bytes with CRC-32 " + std::to_string(entry_.crc), std::to_string(crc_));
    }
  }

  std::unique_ptr<ByteSource> source_;
  const ZipEntry entry_;
  bool check_sum_, is_checked_ = false;
  std::uint32_t crc_ = 0;
  std::uint64_t given_ = 0;
};

}  // namespace

/// The content of the end records.
struct ZipReader::End {
  std::uint64_t entries = 0, directory = 0, directory_size = 0;
};

bool is_zip(std::span<const std::byte> begin) noexcept {
  return begin.size() >= 4 && number_at<std::uint32_t>(begin, 0) == kZipSignature;
}

ZipReader::ZipReader(const std::string& path, const std::string& op) : file_(path, op) {
  read_directory(find_end());
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return headers_[a] < headers_[b]; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const ZipEntry& before = entries_[by_name_[i - 1]];
    if (before.begin + before.packed_size > headers_[by_name_[i]]) {
      refuse("entries that do not overlap",
             quote(before.name) + " that reaches into " + quote(entries_[by_name_[i]].name));
    }
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return entries_[a].name < entries_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = entries_[by_name_[i]].name;
    if (entries_[by_name_[i - 1]].name == name) refuse("distinct names of entries", quote(name) + " twice");
  }
}

void ZipReader::refuse(std::string_view expected, std::string_view got) const {
  throw IoError(op(), expected, got, "the file is damaged or was not written as a zip archive");
}

ZipReader::End ZipReader::find_end() {
  const std::uint64_t size = file_.size();
  if (size < kEndSize) refuse("a zip archive", "a file of " + std::to_string(size) + " bytes");
  std::vector<std::byte> tail(
      static_cast<std::size_t>(std::min<std::uint64_t>(size, kEndSize + kMaxComment + kZip64LocatorSize)));
  const std::uint64_t tail_begin = size - tail.size();
  file_.seek(tail_begin);
  file_.read(tail);
  std::size_t at = tail.size() - kEndSize + 1;
  bool found = false;
  while (!found && at > 0) {
    --at;
    found = number_at<std::uint32_t>(tail, at) == kEndSignature &&
            number_at<std::uint16_t>(tail, at + 20) == tail.size() - kEndSize - at;
  }
  if (!found) {
    file_.seek(0);
    file_.read(std::span(tail).first(kEndSize));
    refuse_other_file(op(), "a zip archive", std::span(tail).first(kEndSize));
    refuse("a zip archive", "a file without an end record");
  }
  const std::span<const std::byte> record(tail.data() + at, kEndSize);
  End end{.entries = number_at<std::uint16_t>(record, 10),
          .directory = number_at<std::uint32_t>(record, 16),
          .directory_size = number_at<std::uint32_t>(record, 12)};
  std::uint64_t end_begin = tail_begin + at;
  bool one_disk = number_at<std::uint32_t>(record, 4) == 0 &&
                  number_at<std::uint16_t>(record, 8) == number_at<std::uint16_t>(record, 10);
  if (at >= kZip64LocatorSize &&
      number_at<std::uint32_t>(tail, at - kZip64LocatorSize) == kZip64LocatorSignature) {
    const std::span<const std::byte> locator(tail.data() + at - kZip64LocatorSize, kZip64LocatorSize);
    const auto place = number_at<std::uint64_t>(locator, 8);
    // The record lies right before its locator; other lengths than the usual are for what nobody writes.
    if (end_begin < kZip64LocatorSize + kZip64EndSize ||
        place != end_begin - kZip64LocatorSize - kZip64EndSize) {
      refuse("a ZIP64 end record before its locator", "one at byte " + std::to_string(place));
    }
    std::vector<std::byte> wide(kZip64EndSize);
    file_.seek(place);
    file_.read(wide);
    if (number_at<std::uint32_t>(wide, 0) != kZip64EndSignature) refuse("a ZIP64 end record", "other bytes");
    end = {.entries = number_at<std::uint64_t>(wide, 32),
           .directory = number_at<std::uint64_t>(wide, 48),
           .directory_size = number_at<std::uint64_t>(wide, 40)};
    one_disk = number_at<std::uint64_t>(wide, 16) == 0 && number_at<std::uint64_t>(wide, 24) == end.entries;
    end_begin = place;
  }
  if (!one_disk) refuse("an archive in one file", "a part of one in several");
  if (end.directory > end_begin || end.directory_size != end_begin - end.directory) {
    refuse("a directory up to its end record at byte " + std::to_string(end_begin),
           std::to_string(end.directory_size) + " bytes from byte " + std::to_string(end.directory));
  }
  return end;
}

void ZipReader::read_directory(const End& end) {
  if (end.entries > end.directory_size / kDirectorySize) {
    refuse("a directory of " + std::to_string(end.entries) + " entries",
           std::to_string(end.directory_size) + " bytes");
  }
  std::vector<std::byte> directory(static_cast<std::size_t>(end.directory_size));
  file_.seek(end.directory);
  file_.read(directory);
  std::span<const std::byte> rest(directory);
  entries_.reserve(static_cast<std::size_t>(end.entries));
  headers_.reserve(static_cast<std::size_t>(end.entries));
  for (std::uint64_t i = 0; i < end.entries; ++i) {
    ZipEntry entry = read_entry(rest, end);
    if (entry.name.ends_with('/') && entry.size == 0 && entry.packed_size == 0) {
      headers_.pop_back();
      continue;
    }
    entries_.push_back(std::move(entry));
  }
  if (!rest.empty())
    refuse("a directory of " + std::to_string(end.entries) + " entries", "more bytes behind them");
}

ZipEntry ZipReader::read_entry(std::span<const std::byte>& rest, const End& end) {
  if (rest.size() < kDirectorySize || number_at<std::uint32_t>(rest, 0) != kDirectorySignature)
    refuse("a directory of " + std::to_string(end.entries) + " entries", "other bytes in it");
  const auto flags = number_at<std::uint16_t>(rest, 8);
  const auto method = number_at<std::uint16_t>(rest, 10);
  const std::size_t name_size = number_at<std::uint16_t>(rest, 28);
  const std::size_t extra_size = number_at<std::uint16_t>(rest, 30);
  const std::size_t length = kDirectorySize + name_size + extra_size + number_at<std::uint16_t>(rest, 32);
  if (length > rest.size()) refuse("entries within the directory", "one that reaches beyond its end");
  ZipEntry entry{.name = {reinterpret_cast<const char*>(rest.data()) + kDirectorySize, name_size},
                 .method = static_cast<ZipMethod>(method),
                 .crc = number_at<std::uint32_t>(rest, 16),
                 .packed_size = number_at<std::uint32_t>(rest, 20),
                 .size = number_at<std::uint32_t>(rest, 24)};
  std::uint64_t header = number_at<std::uint32_t>(rest, 42);
  bool is_sound = false;
  std::span<const std::byte> wide =
      zip64_field(rest.subspan(kDirectorySize + name_size, extra_size), is_sound);
  for (std::uint64_t* const number : {&entry.size, &entry.packed_size, &header}) {
    if (*number != kNone32 || wide.size() < 8) continue;
    *number = number_at<std::uint64_t>(wide, 0);
    wide = wide.subspan(8);
  }
  rest = rest.subspan(length);
  if (!is_valid_utf8(entry.name)) refuse("names of entries in UTF-8", quote(entry.name));
  const std::string where = " in entry " + quote(entry.name);
  if (!is_sound) refuse("extra fields that fill their place" + where, "others");
  if ((flags & kEncryptedFlags) != 0) refuse("no encryption" + where, "encrypted data");
  if (entry.method != ZipMethod::stored && entry.method != ZipMethod::deflated)
    refuse("data stored or deflated" + where, "compression method " + std::to_string(method));
  if (entry.method == ZipMethod::stored ? entry.size != entry.packed_size
                                        : entry.size / kMaxDeflateRatio > entry.packed_size) {
    refuse("a possible size" + where,
           std::to_string(entry.size) + " bytes from " + std::to_string(entry.packed_size) + " in the file");
  }
  place_data(entry, header, flags, end.directory);
  return entry;
}

void ZipReader::place_data(ZipEntry& entry, std::uint64_t offset, std::uint16_t flags, std::uint64_t limit) {
  const std::string where = " in entry " + quote(entry.name);
  if (offset > limit || limit - offset < kLocalSize)
    refuse("a header before the directory" + where, "byte " + std::to_string(offset));
  std::vector<std::byte> local(kLocalSize);
  file_.seek(offset);
  file_.read(local);
  const std::size_t name_size = number_at<std::uint16_t>(local, 26);
  const std::size_t skipped = kLocalSize + name_size + number_at<std::uint16_t>(local, 28);
  bool agrees = number_at<std::uint32_t>(local, 0) == kZipSignature && name_size == entry.name.size() &&
                number_at<std::uint16_t>(local, 8) == static_cast<std::uint16_t>(entry.method) &&
                ((number_at<std::uint16_t>(local, 6) ^ flags) & kEncryptedFlags) == 0;
  if (agrees && limit - offset - kLocalSize >= name_size) {
    std::string name(name_size, '\0');
    file_.read(std::as_writable_bytes(std::span(name)));
    agrees = name == entry.name;
  }
  if (!agrees) refuse("a local header as the directory says" + where, "another");
  if (limit - offset < skipped || entry.packed_size > limit - offset - skipped) {
    refuse("data before the directory" + where,
           std::to_string(entry.packed_size) + " bytes from byte " + std::to_string(offset + skipped));
  }
  entry.begin = offset + skipped;
  headers_.push_back(offset);
}

const ZipEntry* ZipReader::find(std::string_view name) const noexcept {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::uint32_t i, std::string_view key) { return entries_[i].name < key; });
  return place != by_name_.end() && entries_[*place].name == name ? &entries_[*place] : nullptr;
}

std::unique_ptr<ByteSource> ZipReader::open(const ZipEntry& entry, bool check_sum) {
  std::unique_ptr<ByteSource> source = std::make_unique<FileRange>(file_, entry.begin, entry.packed_size);
  if (entry.method == ZipMethod::deflated)
    source = std::make_unique<InflateSource>(std::move(source), DeflateFrame::raw, entry.size);
  return std::make_unique<EntrySource>(std::move(source), entry, check_sum);
}

// --- writing

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
  put(text, kZipSignature);
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
  if (method == ZipMethod::deflated) packed = deflated(op, DeflateFrame::raw, parts);
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
