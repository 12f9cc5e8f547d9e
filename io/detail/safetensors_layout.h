// The layout that reader and writer of safetensors agree on: limits, the reserved key, and how many bytes a
// tensor has. Not for use outside of io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace mezzo::io::detail
