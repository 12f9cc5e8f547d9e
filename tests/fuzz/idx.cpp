// IDX: the tensor that was read, written by the format's definition, is the file, or what is packed in it.
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/detail/deflate.h"
#include "mezzo/io/idx.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

std::uint8_t idx_code(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 0x08;
    case DType::i8:
      return 0x09;
    case DType::i16:
      return 0x0B;
    case DType::i32:
      return 0x0C;
    case DType::f32:
      return 0x0D;
    default:
      return 0x0E;
  }
}

std::vector<std::uint8_t> idx_bytes(const Tensor& tensor) {
  std::vector<std::uint8_t> bytes{0, 0, idx_code(tensor.dtype()), static_cast<std::uint8_t>(tensor.dim())};
  for (const std::int64_t length : tensor.shape()) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(length >> shift));
  }
  const auto* const first = static_cast<const std::uint8_t*>(tensor.impl().data());
  const auto element = static_cast<std::size_t>(info(tensor.dtype()).size);
  const auto count = static_cast<std::size_t>(tensor.numel());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = element; j-- > 0;) bytes.push_back(first[i * element + j]);
  }
  return bytes;
}

/// The file, unpacked where it is gzip'd.
std::vector<std::uint8_t> content_of(const std::string& path, std::size_t size) {
  io::detail::UnpackedFile file(path, "unpack", size);
  std::vector<std::uint8_t> bytes(size);
  file.read(std::as_writable_bytes(std::span(bytes)));
  file.expect_end(size);
  return bytes;
}

}  // namespace

int fuzz_idx(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  try {
    const std::vector<std::uint8_t> bytes = idx_bytes(io::read_idx(file.path()));
    const std::vector<std::uint8_t> content = content_of(file.path(), bytes.size());
    require(bytes == content, "the tensor is what the file says");
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace mezzo::fuzz
