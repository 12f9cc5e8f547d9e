// DEFLATE (RFC 1951), bare or in gzip's frame (RFC 1952), by zlib, which deflate.cpp alone sees. A build
// without zlib has all of this too; what packs or unpacks throws there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

enum class DeflateFrame : std::uint8_t {
  raw,   ///< as zip has it; who unpacks checks the sum
  gzip,  ///< members with a header, a sum and a size each, which are checked
};

/// No byte of DEFLATE becomes more than this many: 258 bytes take two bits at least. So this bounds what a
/// file can ask for before any of it is unpacked.
inline constexpr std::uint64_t kMaxDeflateRatio = 1032;

/// Whether this build has zlib.
[[nodiscard]] bool has_deflate() noexcept;
/// Whether bytes that begin so are a gzip file.
[[nodiscard]] bool is_gzip(std::span<const std::byte> begin) noexcept;

/// Unpacks the bytes of another source, of which one block at a time is in memory.
class InflateSource final : public ByteSource {
 public:
  /// Unpacks `packed`, which must end where the packed data do; in gzip's frame several members are one after
  /// the other. Throws: IoError in a build without zlib. Reading throws IoError for data that are damaged,
  /// end too early, or become more than `limit` bytes: not one more is unpacked.
  InflateSource(std::unique_ptr<ByteSource> packed, DeflateFrame frame, std::uint64_t limit);
  ~InflateSource() override;
  [[nodiscard]] std::size_t read_some(std::span<std::byte> out) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The content of a file; a gzip'd one, which its first bytes tell and not its name, is unpacked on the way.
class UnpackedFile final : public ByteSource {
 public:
  /// Throws: what InputFile throws, and IoError for a gzip'd file in a build without zlib. Reading throws
  /// what InflateSource throws.
  UnpackedFile(const std::string& path, const std::string& op, std::uint64_t limit = ~std::uint64_t{0});
  [[nodiscard]] std::size_t read_some(std::span<std::byte> out) override { return source_->read_some(out); }
  [[nodiscard]] bool is_packed() const noexcept { return is_packed_; }
  /// The most bytes that there can be: the size of a plain file, and kMaxDeflateRatio times the size of a
  /// gzip'd file. A header that asks for more is refused before memory is taken for it.
  [[nodiscard]] std::uint64_t max_size() const noexcept;

 private:
  explicit UnpackedFile(std::unique_ptr<InputFile> file, std::uint64_t limit);

  std::unique_ptr<InputFile> file_;
  std::unique_ptr<ByteSource> source_;
  bool is_packed_ = false;
};

/// Packs what the parts are one behind the other, at zlib's usual level. Throws: IoError, beginning with
/// `op`, in a build without zlib.
[[nodiscard]] std::vector<std::byte> deflated(const std::string& op, DeflateFrame frame,
                                              std::span<const std::span<const std::byte>> parts);

}  // namespace mezzo::io::detail
