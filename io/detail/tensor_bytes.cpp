// The memory of tensors, as readers and writers of files handle it.
#include "mezzo/io/detail/tensor_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/kernels/cpu/parallel.h"

namespace mezzo::io::detail {

void check_defined(std::string_view op, std::string_view name, const Tensor& tensor) {
  if (!tensor.defined())
    throw ValueError(op, "tensors", "an undefined one under " + quote(name), "leave it out");
}

Tensor row_major_on_host(std::string_view op, std::string_view name, const Tensor& tensor) {
  check_defined(op, name, tensor);
  return tensor.detach().to(Device::cpu()).contiguous();
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.impl().data()),
          static_cast<std::size_t>(tensor.numel() * size_of(tensor.dtype()))};
}

void make_bools(std::span<std::byte> bytes) noexcept {
  for (std::byte& byte : bytes) {
    if (byte > std::byte{1}) byte = std::byte{1};
  }
}

namespace {

template <class From, class To>
Tensor widened_to(const Tensor& bits, DType dtype) {
  Tensor wide = empty(bits.shape(), {.dtype = dtype});
  const auto from = bytes_of(bits), to = bytes_of(wide);
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    const auto wider = static_cast<To>(value);
    std::memcpy(to.data() + i * sizeof(To), &wider, sizeof(To));
  }
  return wide;
}

}  // namespace

Tensor widened(const std::string& op, const std::string& what, const Tensor& bits) {
  if (bits.dtype() == DType::i16) return widened_to<std::uint16_t, std::int32_t>(bits, DType::i32);
  if (bits.dtype() == DType::i32) return widened_to<std::uint32_t, std::int64_t>(bits, DType::i64);
  for (const std::int64_t value : bits.data<std::int64_t>()) {
    if (value < 0) {
      throw IoError(op, "unsigned integers below 2^63, as i64 holds them",
                    std::to_string(static_cast<std::uint64_t>(value)) + what,
                    "convert it before it is saved");
    }
  }
  return bits;
}

void reverse_elements(std::span<std::byte> bytes, std::size_t size) noexcept {
  for (std::size_t i = 0; size > 1 && i < bytes.size(); i += size)
    std::ranges::reverse(bytes.subspan(i, size));
}

// Pieces are cut into parts, which threads take one by one.
void read_pieces(const InputFile& file, std::span<const FilePiece> pieces) {
  constexpr std::size_t kMost = std::size_t{8} << 20U;
  std::vector<FilePiece> parts;
  parts.reserve(pieces.size());
  for (const FilePiece& piece : pieces) {
    for (std::size_t at = 0; at < piece.bytes.size(); at += kMost)
      parts.push_back({piece.bytes.subspan(at, std::min(kMost, piece.bytes.size() - at)), piece.begin + at});
  }
  // Small parts go together, so that a chunk is worth a thread.
  const auto count = static_cast<std::int64_t>(parts.size());
  std::size_t total = 0;
  for (const FilePiece& part : parts) total += part.bytes.size();
  const auto chunks = static_cast<std::int64_t>(total / kMost + 1);
  kernels::cpu::parallel_for(
      count, (count + chunks - 1) / chunks, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
          file.read_at(parts[static_cast<std::size_t>(i)].begin, parts[static_cast<std::size_t>(i)].bytes);
      });
}

}  // namespace mezzo::io::detail
