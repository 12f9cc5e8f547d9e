// Zip archives as npz and PyTorch's files are: entries stored or deflated, ZIP64, no encryption. The reader
// trusts nothing in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

/// How the bytes of an entry are kept, by zip's numbers.
enum class ZipMethod : std::uint16_t { stored = 0, deflated = 8 };

struct ZipEntry {
  std::string name;
  ZipMethod method = ZipMethod::stored;
  std::uint32_t crc = 0;
  std::uint64_t packed_size = 0;  ///< bytes in the file
  std::uint64_t size = 0;         ///< bytes unpacked: as many when stored, at most kMaxDeflateRatio times
  std::uint64_t begin = 0;        ///< of the data in the file
};

/// The number that an archive with entries begins with, and the header of each entry.
inline constexpr std::uint32_t kZipSignature = 0x04034B50U;
/// Whether bytes that begin so may be a zip archive with entries.
[[nodiscard]] bool is_zip(std::span<const std::byte> begin) noexcept;

/// An archive opened for reading. All of its directory is checked; the entries' data are when they are read.
class ZipReader {
 public:
  /// Throws: what InputFile throws, and IoError when the file is no zip archive or not a sound one: the
  /// directory ends where its end record begins, and has as many entries as that says; names are UTF-8 and
  /// distinct; entries are stored or deflated and not encrypted; their local headers agree; data lie before
  /// the directory and do not overlap; sizes are possible (see ZipEntry). Takes memory of at most five times
  /// the directory's size.
  ZipReader(const std::string& path, const std::string& op);

  [[nodiscard]] const std::string& op() const noexcept { return file_.op(); }
  [[nodiscard]] const InputFile& file() const noexcept { return file_; }
  /// In the order of the directory, folders left out.
  [[nodiscard]] std::span<const ZipEntry> entries() const noexcept { return entries_; }
  /// The entry of that name, or nullptr.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const noexcept;
  /// The bytes of an entry, unpacked. One entry is read at a time. Reading throws IoError when they are not
  /// `size` many, or have another sum than `crc`, unless `check_sum` is false.
  [[nodiscard]] std::unique_ptr<ByteSource> open(const ZipEntry& entry, bool check_sum = true);

 private:
  struct End;
  [[nodiscard]] End find_end();
  void read_directory(const End& end);
  [[nodiscard]] ZipEntry read_entry(std::span<const std::byte>& rest, const End& end);
  void place_data(ZipEntry& entry, std::uint64_t offset, std::uint16_t flags, std::uint64_t limit);
  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const;

  InputFile file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint64_t> headers_;  ///< where the entries' local headers begin
  std::vector<std::uint32_t> by_name_;  ///< indices of entries
};

/// Writes an archive into a file, entry by entry. Dates are 1980-01-01, so that the same content gives the
/// same bytes.
class ZipWriter {
 public:
  /// Sizes, offsets and counts from `zip64_from` on are written in ZIP64's form; tests lower it.
  explicit ZipWriter(AtomicFile& file, std::uint64_t zip64_from = 0xFFFFFFFFU)
      : file_(file), zip64_from_(zip64_from) {}

  /// Appends an entry whose content is `parts`, one after the other. A stored entry begins at a multiple of
  /// `alignment`; what is deflated is in memory once, packed. Throws: IoError in the name of `op` for a name
  /// that is no UTF-8 or longer than 60,000 bytes, and for `deflated` in a build without zlib.
  void add(const std::string& op, const std::string& name, std::span<const std::span<const std::byte>> parts,
           ZipMethod method = ZipMethod::stored, std::size_t alignment = 1);
  /// Writes the directory. To be called once, last; the file is still to be committed.
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  AtomicFile& file_;
  std::uint64_t zip64_from_;
  std::uint64_t at_ = 0;     ///< bytes written
  std::uint64_t count_ = 0;  ///< entries
  std::string directory_;
};

}  // namespace mezzo::io::detail
