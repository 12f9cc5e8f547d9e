// The header of a safetensors file: read twice, first to check it and to count what is in it, then into
// memory of just that size. So a hostile header takes no more than a few times its length. And what reader
// and writer agree on: limits, the reserved key, and how many bytes a tensor has. Not for use outside of io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/json_scanner.h"
#include "mezzo/io/tensor_entry.h"

namespace mezzo::io::detail {

/// The reference implementation's limit on the header.
inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;
// Further limits, which keep a hostile header from taking many times its size in memory; files beyond them
// are not written either.
/// Values in a header, lists and maps included: some 500,000 tensors.
inline constexpr std::size_t kMaxHeaderValues = std::size_t{1} << 22U;
/// Lists and maps within each other.
inline constexpr std::size_t kMaxHeaderDepth = 3;
/// Strings in `__metadata__`.
inline constexpr std::size_t kMaxMetadata = std::size_t{1} << 14U;
/// Dims of a tensor.
inline constexpr std::size_t kMaxFileDims = 64;
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// See safetensors_dtype_bits.
[[nodiscard]] std::optional<int> dtype_bits(std::string_view dtype) noexcept;

/// Why `bytes` bytes cannot be a tensor of `dtype` and `shape`, or "" when they can: product(shape) * element
/// bits / 8 bytes, where the product of the sizes other than 0 is below layout::kMaxElements, as it is for
/// every tensor. A dtype that is not known fits any number of bytes.
[[nodiscard]] std::string size_problem(std::string_view dtype, std::span<const std::int64_t> shape,
                                       std::uint64_t bytes);

/// Throws IoError with the fix for files that are damaged.
[[noreturn]] void refuse(const std::string& op, std::string_view expected, std::string_view got);

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
[[nodiscard]] ParsedHeader parse_header(const std::string& op, const JsonBlocks& text, std::size_t data_size);

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
