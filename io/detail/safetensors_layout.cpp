// The dtype table of safetensors and the size arithmetic, apart from reading and writing because both rest on
// it.
#include "mezzo/io/detail/safetensors_layout.h"

#include <algorithm>
#include <array>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/tensor_bytes.h"

namespace mezzo::io {

namespace {

struct DTypeBits {
  std::string_view name;
  int bits;
};

/// All dtypes of the reference implementation (0.7).
constexpr std::array<DTypeBits, 22> kDTypeBits{{
    {"F64", 64},    {"F32", 32},    {"F16", 16},        {"BF16", 16},       {"I64", 64}, {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},        {"U32", 32},        {"U16", 16}, {"U8", 8},
    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"C64", 64}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
}};

}  // namespace

namespace detail {

std::optional<int> dtype_bits(std::string_view dtype) noexcept {
  const auto row =
      std::find_if(kDTypeBits.begin(), kDTypeBits.end(), [&](const DTypeBits& r) { return r.name == dtype; });
  return row == kDTypeBits.end() ? std::nullopt : std::optional<int>(row->bits);
}

std::string size_problem(std::string_view dtype, std::span<const std::int64_t> shape, std::uint64_t bytes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::string what =
      "shape " + (shape.size() <= 16 ? to_string(shape) : "of " + std::to_string(shape.size()) + " dims");
  const std::int64_t count = checked_count(shape);
  if (count < 0) {
    const bool is_negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; });
    return what + (is_negative ? " with a negative size" : ", whose product reaches 2^60");
  }
  const std::optional<int> bits = dtype_bits(dtype);
  if (!bits) return {};
  if (count > kMax / *bits) return what + " of " + std::string(dtype) + ", whose bits overflow 63 bits";
  const std::int64_t total = count * *bits;
  if (total % 8 != 0) return what + " of " + std::string(dtype) + ", which ends within a byte";
  if (static_cast<std::uint64_t>(total / 8) == bytes) return {};
  return std::to_string(bytes) + " bytes for " + what + " of " + std::string(dtype) + ", which has " +
         std::to_string(total / 8);
}

}  // namespace detail
}  // namespace mezzo::io
