// Tensors as bytes in memory, for readers and writers of files.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "mezzo/core/tensor.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io::detail {

static_assert(std::endian::native == std::endian::little,
              "little-endian bytes of files are used as they are");

/// Throws: ValueError in the name of `op` for an undefined tensor, called `name`.
void check_defined(std::string_view op, std::string_view name, const Tensor& tensor);
/// The values of `tensor` row-major on the CPU, without history: itself where it lies so. Throws: what
/// check_defined throws.
[[nodiscard]] Tensor row_major_on_host(std::string_view op, std::string_view name, const Tensor& tensor);
/// The bytes of a row-major tensor on the CPU.
[[nodiscard]] std::span<std::byte> bytes_of(const Tensor& tensor);
/// Makes bools of bytes from a file: 0 stays, all others become 1. Bytes that are right are not written to.
void make_bools(std::span<std::byte> bytes) noexcept;
/// Unsigned integers of 2, 4 or 8 bytes, which a file has and mezzo has not, by their bits, as i16, i32 or
/// i64 on the CPU: as integers that hold their values, i32 or i64. Throws: IoError in the name of `op` for
/// one from 2^63 on, in the tensor that `what` names.
[[nodiscard]] Tensor widened(const std::string& op, const std::string& what, const Tensor& bits);
/// The dtype of what `widened` makes of bits of `dtype`.
[[nodiscard]] constexpr DType wider(DType dtype) noexcept {
  return dtype == DType::i16 ? DType::i32 : DType::i64;
}
/// Reverses each run of `size` bytes, of which a big-endian element has so many.
void reverse_elements(std::span<std::byte> bytes, std::size_t size) noexcept;

/// Memory to be filled with the bytes of a file from `begin` on.
struct FilePiece {
  std::span<std::byte> bytes;
  std::uint64_t begin = 0;
};

/// Fills the pieces, on as many threads as get_num_threads() says: finding pages for new memory takes longer
/// than copying into them. Throws: IoError when the file ends before.
void read_pieces(const InputFile& file, std::span<const FilePiece> pieces);

}  // namespace mezzo::io::detail
