// The nearest entry is found by the upper bits of a number, which say all but on which side of one border it
// is.
#include "mezzo/kernels/optim/cpu_arrays.h"

#include <algorithm>
#include <array>
#include <limits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/optim/moments_8bit.h"

namespace mezzo::kernels::cpu {

namespace {

/// Numbers of one sign, exponent and seven bits of mantissa, from 2^-23 to 1; smaller ones count with the
/// first.
constexpr std::int32_t kFirstCell = (127 - 23) << 7, kCells = (127 << 7) - kFirstCell + 1;

struct MomentTable {
  explicit MomentTable(bool has_sign) {
    borders[256] = std::numeric_limits<float>::infinity();  // none is above the last
    for (int code = 0; code < 256; ++code) {
      entries[static_cast<std::size_t>(code)] = Moments8::entry(has_sign, code);
      if (code > 0) borders[static_cast<std::size_t>(code)] = Moments8::border(has_sign, code);
    }
    const auto code_of = [&](float x) {
      return Moments8::code_of([&](int code) { return borders[static_cast<std::size_t>(code)]; }, x);
    };
    for (std::int32_t cell = 0; cell < kCells; ++cell) {
      const auto least = static_cast<std::uint32_t>(cell == 0 ? 0 : kFirstCell + cell) << 16;
      const std::uint32_t most = static_cast<std::uint32_t>(kFirstCell + cell) << 16 | 0xffffU;
      const auto at = static_cast<std::size_t>(cell);
      cells[at] = code_of(mezzo::detail::bit_cast<float>(least));
      cells[at + kCells] = code_of(-mezzo::detail::bit_cast<float>(most));
    }
  }
  std::array<float, 256> entries{};
  std::array<float, 257> borders{};              // the last is never reached
  std::array<std::uint8_t, 2 * kCells> cells{};  // codes of the least numbers of cells; negative ones behind

  static const MomentTable& of(bool has_sign) {
    static const MomentTable with(true), without(false);
    return has_sign ? with : without;
  }
};

struct ReadBlock {
  static void run(const std::uint8_t* codes, const float* entries, float scale, float* values,
                  std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = entries[codes[i]] * scale;
  }
};
/// Magnitudes are in the order of their bits; a NaN counts for nothing.
struct LargestOfBlock {
  static float run(const float* values, std::int64_t n) {
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t magnitude = mezzo::detail::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
      const std::int32_t number = magnitude > 0x7f800000 ? 0 : magnitude;
      largest = number > largest ? number : largest;
    }
    return mezzo::detail::bit_cast<float>(largest);
  }
};
struct CellsOfBlock {
  /// values /= scale, and their cells.
  static void run(float* values, float scale, std::int32_t* cells, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = values[i] / scale;
      values[i] = x;
      const auto bits = mezzo::detail::bit_cast<std::int32_t>(x);
      const std::int32_t above = ((bits & 0x7fffffff) >> 16) - kFirstCell;
      const std::int32_t cell = above < 0 ? 0 : above < kCells ? above : kCells - 1;
      cells[i] = cell + ((bits >> 31) & kCells);
    }
  }
};

}  // namespace

void read_moments(const std::uint8_t* codes, const float* scales, bool has_sign, float* values,
                  std::int64_t n) {
  const MomentTable& table = MomentTable::of(has_sign);
  for (std::int64_t at = 0; at < n; at += Moments8::kBlock)
    run_isa<ReadBlock>(codes + at, static_cast<const float*>(table.entries.data()),
                       scales[at / Moments8::kBlock], values + at, std::min(Moments8::kBlock, n - at));
}

void write_moments(float* values, bool has_sign, std::uint8_t* codes, float* scales, std::int64_t n) {
  const MomentTable& table = MomentTable::of(has_sign);
  alignas(64) std::int32_t cells[Moments8::kBlock];
  for (std::int64_t at = 0; at < n; at += Moments8::kBlock) {
    const std::int64_t count = std::min(Moments8::kBlock, n - at);
    float* const block = values + at;
    const float largest = run_isa<LargestOfBlock>(static_cast<const float*>(block), count);
    const float scale = std::max(largest, Moments8::kLeastScale);
    scales[at / Moments8::kBlock] = scale;
    run_isa<CellsOfBlock>(block, scale, static_cast<std::int32_t*>(cells), count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t code = table.cells[static_cast<std::size_t>(cells[i])];
      codes[at + i] = static_cast<std::uint8_t>(code + (block[i] >= table.borders[code + 1] ? 1U : 0U));
    }
  }
}

}  // namespace mezzo::kernels::cpu
