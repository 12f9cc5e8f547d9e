// The reader of IDX files: the header's sizes are checked against the file's length before memory is
// allocated, then big-endian elements are reversed in place.
#include "mezzo/io/idx.h"

#include <algorithm>
#include <array>
#include <bit>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::io {

namespace {

/// The dtype behind the third byte of an IDX file.
DType dtype_of(const InputFile& file, std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      throw IoError(file.op(), "elements of type 8 (u8), 9 (i8), 11 (i16), 12 (i32), 13 (f32) or 14 (f64)",
                    "type " + std::to_string(std::to_integer<int>(code)), "convert the file");
  }
}

std::int64_t read_size(InputFile& file) {
  std::array<std::byte, 4> bytes{};
  file.read(bytes);
  std::int64_t size = 0;
  for (const std::byte byte : bytes) size = size * 256 + std::to_integer<std::int64_t>(byte);
  return size;
}

/// Big-endian elements to the machine's order.
void reverse_elements(std::span<std::byte> bytes, std::size_t size) {
  static_assert(std::endian::native == std::endian::little);
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    const std::span<std::byte> element = bytes.subspan(i, size);
    std::reverse(element.begin(), element.end());
  }
}

}  // namespace

Tensor read_idx(const std::string& path) {
  InputFile file(path, "read_idx");
  std::array<std::byte, 4> magic{};
  if (file.size() >= magic.size()) file.read(magic);
  const auto dims = std::to_integer<std::size_t>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || dims < 1 || dims > kMaxDims) {
    const bool packed = magic[0] == std::byte{0x1F} && magic[1] == std::byte{0x8B};
    throw IoError(file.op(), "an IDX file: two zero bytes, a type, 1 to 8 dims",
                  packed ? "a gzip file" : "other bytes",
                  packed ? "unpack it with gunzip" : "check the path");
  }
  const DType dtype = dtype_of(file, magic[2]);
  Shape shape;
  for (std::size_t d = 0; d < dims; ++d) shape.push_back(read_size(file));
  const auto size = static_cast<std::size_t>(info(dtype).size);
  const std::size_t header = magic.size() * (1 + dims);
  const std::size_t wanted = static_cast<std::size_t>(layout::checked_numel("read_idx", shape)) * size;
  if (file.size() - header != wanted) {
    throw IoError(file.op(), std::to_string(wanted) + " bytes behind the header, for " + to_string(shape),
                  std::to_string(file.size() - header), "fetch the file again");
  }
  Tensor tensor = empty(shape, {.dtype = dtype});
  const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.impl().data()), wanted);
  if (!bytes.empty()) file.read(bytes);
  reverse_elements(bytes, size);
  return tensor;
}

}  // namespace mezzo::io
