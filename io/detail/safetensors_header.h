// The header of a safetensors file: read twice, first to check the text and count what is in it, then into
// memory of just that size. So a hostile header takes no more than a few times its length. Not for use
// outside of io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/json_scanner.h"
#include "mezzo/io/tensor_entry.h"

namespace mezzo::io::detail {

/// Throws IoError with the fix for files that are damaged.
[[noreturn]] void refuse(const std::string& op, std::string_view expected, std::string_view got);

class HeaderInFile final : public JsonText {
 public:
  /// The `length` bytes of `file`, which outlives this, from byte `begin` on.
  HeaderInFile(InputFile& file, std::size_t begin, std::size_t length);
  [[nodiscard]] std::string_view next_block() override;
  void rewind() override;
  [[nodiscard]] std::size_t size() const override { return length_; }

 private:
  InputFile& file_;
  std::size_t begin_, length_, rest_;
  std::string block_;
};

/// Where a tensor's bytes are in the data.
struct Place {
  std::size_t begin, end;
};

/// All that a header says; the bytes of the entries are not set.
struct ParsedHeader {
  Metadata metadata;
  std::vector<TensorEntry> entries;
  std::vector<Place> places;           ///< of the entries, checked against the size of the data
  std::vector<std::uint32_t> by_name;  ///< indices of entries, in the order of their names
};

/// Throws IoError, beginning with `op`, for what is no header of `data_size` bytes of data.
[[nodiscard]] ParsedHeader parse_header(const std::string& op, JsonText& text, std::size_t data_size);

/// The length of the header that the first 8 bytes of a file say. Throws IoError, beginning with `op`, where
/// there are fewer, or it exceeds the file or the limit.
[[nodiscard]] std::size_t header_length(const std::string& op, std::span<const std::byte> prefix,
                                        std::uint64_t file_size);

/// A file's header, and where its data are.
struct FileHeader {
  ParsedHeader header;
  std::uint64_t data_begin = 0;
  std::size_t data_size = 0;
};
/// Reads it from the file's begin. Throws what the two above throw.
[[nodiscard]] FileHeader read_file_header(InputFile& file);

}  // namespace mezzo::io::detail
