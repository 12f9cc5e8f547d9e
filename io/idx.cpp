// The reader of IDX files: the header's sizes are checked against the file's length before memory is
// allocated, then big-endian elements are reversed in place. Packed files are unpacked on the way.
#include "mezzo/io/idx.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/io/detail/file_kind.h"
#include "mezzo/io/detail/tensor_bytes.h"

namespace mezzo::io {

namespace {

/// The dtype behind the third byte of an IDX file.
DType dtype_of(const detail::UnpackedFile& file, std::byte code) {
  constexpr std::array<std::pair<int, DType>, 6> kTypes{{{0x08, DType::u8},
                                                         {0x09, DType::i8},
                                                         {0x0B, DType::i16},
                                                         {0x0C, DType::i32},
                                                         {0x0D, DType::f32},
                                                         {0x0E, DType::f64}}};
  const int number = std::to_integer<int>(code);
  for (const auto& [known, dtype] : kTypes) {
    if (known == number) return dtype;
  }
  throw IoError(file.op(), "elements of type 8 (u8), 9 (i8), 11 (i16), 12 (i32), 13 (f32) or 14 (f64)",
                "type " + std::to_string(number), "convert the file");
}

std::int64_t read_size(detail::UnpackedFile& file) {
  std::array<std::byte, 4> bytes{};
  file.read(bytes);
  std::int64_t size = 0;
  for (const std::byte byte : bytes) size = size * 256 + std::to_integer<std::int64_t>(byte);
  return size;
}

}  // namespace

Tensor read_idx(const std::string& path) {
  detail::UnpackedFile file(path, "read_idx");
  std::array<std::byte, 4> magic{};
  if (file.max_size() >= magic.size()) file.read(magic);
  const auto dims = std::to_integer<std::size_t>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || dims < 1 || dims > kMaxDims) {
    std::array<std::byte, 24> begin{};
    std::copy(magic.begin(), magic.end(), begin.begin());
    static_cast<void>(file.read_some(std::span(begin).subspan(magic.size())));
    detail::refuse_other_file(file.op(), "an IDX file", begin);
    throw IoError(file.op(), "an IDX file: two zero bytes, a type, 1 to 8 dims", "other bytes",
                  "check the path");
  }
  const DType dtype = dtype_of(file, magic[2]);
  Shape shape;
  for (std::size_t d = 0; d < dims; ++d) shape.push_back(read_size(file));
  const auto size = static_cast<std::size_t>(info(dtype).size);
  const std::uint64_t header = magic.size() * (1 + dims);
  const std::size_t wanted = static_cast<std::size_t>(layout::checked_numel("read_idx", shape)) * size;
  // Packed data may be less than its file's size allows, which shows while it is unpacked.
  const std::uint64_t most = file.max_size() - header;
  if (file.is_packed() ? wanted > most : wanted != most) {
    throw IoError(file.op(), std::to_string(wanted) + " bytes behind the header, for " + to_string(shape),
                  (file.is_packed() ? "a file too small for them: at most " : "") + std::to_string(most),
                  "fetch the file again");
  }
  Tensor tensor = empty(shape, {.dtype = dtype});
  const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.impl().data()), wanted);
  file.read(bytes);
  file.expect_end(header + wanted);
  detail::reverse_elements(bytes, size);
  return tensor;
}

}  // namespace mezzo::io
