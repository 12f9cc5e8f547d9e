// The nearest entry is found by the upper bits of a number, which say all but on which side of one border it
// is; with AVX-512 by the line through the entries of its decade.
#include "mezzo/kernels/optim/cpu_arrays.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mezzo::kernels::cpu {

namespace {

/// Numbers of one sign, exponent and seven bits of mantissa, from 2^-23 to 1; smaller ones count with the
/// first.
constexpr std::int32_t kFirstCell = (127 - 23) << 7, kCells = (127 << 7) - kFirstCell + 1;

/// Codes as places on lines. A magnitude has a class: 0 next to zero, 1 to 7 for the decades, 8 next to one.
struct MomentLines {
  /// By class: a magnitude's code is the whole part of start + slope * magnitude, and below `end`. At the
  /// borders of a class, as at those in it, the line meets a whole number.
  std::array<float, 16> slope{}, start{}, end{};
  std::array<float, 16> next{};            ///< by class: the least magnitude of the next
  std::array<std::int32_t, 32> classes{};  ///< of the least number with an exponent, by its five low bits
  /// By the four low bits of the leading zeros of m, which counts entries from zero's on: an entry is
  /// step * m + base, both numbers in two parts, which the larger parts give exactly.
  std::array<float, 16> step{}, base{}, step_rest{}, base_rest{};
  int zero, first_m;

  explicit MomentLines(bool has_sign) : zero(Moments8::zero(has_sign)), first_m(has_sign ? 0 : 1) {
    next.fill(std::numeric_limits<float>::infinity());
    start[0] = end[0] = static_cast<float>(zero) + 0.5F;
    for (std::size_t k = 1; k < 8; ++k) {
      const double decade = Moments8::decade(static_cast<int>(k) - 1);
      const int parts = (1 + first_m) << (k - 1), code = zero + parts - first_m;
      next[k - 1] = Moments8::border(has_sign, code);
      slope[k] = static_cast<float>(parts / (0.9 * decade));
      start[k] = static_cast<float>(code - parts / 9.0);
      end[k] = static_cast<float>(code + parts) - 0.5F;
      set_entries(parts, 0.9 * decade / parts, decade * (0.45 / parts - 0.8));
    }
    slope[0] = 0.5F / next[0];
    // A little below the border, so that the sums decide for magnitudes that are rounded down.
    const float one = Moments8::border(has_sign, 255);
    next[7] = one * (1 - 0x1p-21F);
    slope[8] = 128;
    start[8] = 255 - 128 * one;
    end[8] = 255.5F;
    set_entries(128 << first_m, 0, 1);
    for (int exponent = kLeastExponent; exponent < kLeastExponent + 32; ++exponent) {
      const auto least = mezzo::detail::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23);
      const auto above = std::upper_bound(next.begin(), next.begin() + 8, least);
      classes[static_cast<std::size_t>(exponent % 32)] = static_cast<std::int32_t>(above - next.begin());
    }
  }
  static constexpr int kLeastExponent = 127 - 30;

 private:
  /// Of m from `first`, a power of two, to twice that.
  void set_entries(int first, double exact_step, double exact_base) {
    int zeros = 32;
    for (int m = first; m != 0; m /= 2) --zeros;
    const auto at = static_cast<std::size_t>(zeros % 16);
    int exponent = 0;
    std::frexp(exact_step, &exponent);
    const double unit = std::ldexp(1.0, exponent - 16);  // steps of 16 bits, m of 8
    const double step_part = std::round(exact_step / unit) * unit,
                 base_part = std::round(exact_base / unit) * unit;
    step[at] = static_cast<float>(step_part);
    base[at] = static_cast<float>(base_part);
    step_rest[at] = static_cast<float>(exact_step - step_part);
    base_rest[at] = static_cast<float>(exact_base - base_part);
  }
};

struct MomentTable {
  explicit MomentTable(bool with_sign) : has_sign(with_sign), lines(with_sign) {
    borders[256] = std::numeric_limits<float>::infinity();  // none is above the last
    for (int code = 0; code < 256; ++code) {
      entries[static_cast<std::size_t>(code)] = Moments8::entry(has_sign, code);
      if (code > 0) borders[static_cast<std::size_t>(code)] = Moments8::border(has_sign, code);
    }
    for (std::int32_t cell = 0; cell < kCells; ++cell) {
      const auto least = static_cast<std::uint32_t>(cell == 0 ? 0 : kFirstCell + cell) << 16;
      const std::uint32_t most = static_cast<std::uint32_t>(kFirstCell + cell) << 16 | 0xffffU;
      const auto at = static_cast<std::size_t>(cell);
      cells[at] = code_of(mezzo::detail::bit_cast<float>(least));
      cells[at + kCells] = code_of(-mezzo::detail::bit_cast<float>(most));
    }
  }
  [[nodiscard]] std::uint8_t code_of(float x) const {
    return Moments8::code_of(
        has_sign, [&](int code) { return borders[static_cast<std::size_t>(code)]; }, x);
  }
  bool has_sign;
  MomentLines lines;
  std::array<float, 256> entries{};
  std::array<float, 257> borders{};              // the last is never reached
  std::array<std::uint8_t, 2 * kCells> cells{};  // codes of the least numbers of cells; negative ones behind

  static const MomentTable& of(bool has_sign) {
    static const MomentTable with(true), without(false);
    return has_sign ? with : without;
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
  /// values /= scale, and their cells; a NaN is a zero.
  static void run(float* values, float scale, std::int32_t* cells, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = values[i] / scale;
      values[i] = x;
      const auto bits = mezzo::detail::bit_cast<std::int32_t>(x);
      const std::int32_t magnitude = bits & 0x7fffffff, above = (magnitude >> 16) - kFirstCell;
      const std::int32_t cell = above < 0 ? 0 : above < kCells ? above : kCells - 1;
      cells[i] = magnitude > 0x7f800000 ? 0 : cell + ((bits >> 31) & kCells);
    }
  }
};

void write_block(const MomentTable& table, float* values, float scale, std::uint8_t* codes, std::int64_t n) {
  alignas(64) std::int32_t cells[Moments8::kBlock];
  run_isa<CellsOfBlock>(values, scale, static_cast<std::int32_t*>(cells), n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t code = table.cells[static_cast<std::size_t>(cells[i])];
    codes[i] = static_cast<std::uint8_t>(code + (values[i] >= table.borders[code + 1] ? 1U : 0U));
  }
}

#if defined(__x86_64__)
[[MEZZO_TARGET_V4]] inline __m512 load16(const std::array<float, 16>& values) {
  return _mm512_loadu_ps(values.data());
}

[[MEZZO_TARGET_V4]] void read_block_v4(const MomentTable& table, const std::uint8_t* codes, float scale,
                                       float* values, std::int64_t n) {
  const MomentLines& lines = table.lines;
  const __m512 step = load16(lines.step), base = load16(lines.base), step_rest = load16(lines.step_rest),
               base_rest = load16(lines.base_rest);
  const __m512i sign = _mm512_set1_epi32(INT32_MIN), offset = _mm512_set1_epi32(lines.first_m - lines.zero);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    const __m512i m = _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), offset), size = _mm512_abs_epi32(m),
                  zeros = _mm512_lzcnt_epi32(size);
    const __m512 number = _mm512_cvtepi32_ps(size);
    const auto line = [&](__m512 a, __m512 b) __attribute__((target("arch=x86-64-v4"), always_inline)) {
      return _mm512_fmadd_ps(number, _mm512_permutexvar_ps(zeros, a), _mm512_permutexvar_ps(zeros, b));
    };
    const __m512 entry = _mm512_add_ps(line(step, base), line(step_rest, base_rest));
    const __m512 signed_entry =
        _mm512_castsi512_ps(_mm512_or_epi32(_mm512_castps_si512(entry), _mm512_and_epi32(m, sign)));
    _mm512_storeu_ps(values + i, _mm512_mul_ps(signed_entry, _mm512_set1_ps(scale)));
  }
  for (; i < n; ++i) values[i] = table.entries[codes[i]] * scale;
}

/// Quotients come as products, which are at most 2^-21 of them too small and never too large, so what a line
/// says is off by less than 2^-13. Where that may decide, the borders are asked.
[[MEZZO_TARGET_V4]] void write_block_v4(const MomentTable& table, const float* values, float scale,
                                        std::uint8_t* codes, std::int64_t n) {
  const MomentLines& lines = table.lines;
  const __m512 next = load16(lines.next), slope = load16(lines.slope), start = load16(lines.start),
               end = load16(lines.end);
  const __m512i low_classes = _mm512_loadu_si512(lines.classes.data()),
                high_classes = _mm512_loadu_si512(lines.classes.data() + 16);
  const __m512i one = _mm512_set1_epi32(1), last_negative = _mm512_set1_epi32(254);
  const __m512i sign = _mm512_set1_epi32(table.has_sign ? INT32_MIN : 0);
  const __m512 inverse = _mm512_set1_ps((1 - 0x1p-22F) / scale), least = _mm512_set1_ps(0x1p-30F);
  // Packing interleaves lanes of 128 bits.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    __m512i quarters[4];
    std::uint64_t unsure = 0;
    for (int q = 0; q < 4; ++q) {
      const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(values + i + 16 * q), inverse);
      const __m512i bits = _mm512_castps_si512(x);
      // `least` for a NaN too.
      const __m512 magnitude = _mm512_max_ps(_mm512_castsi512_ps(_mm512_andnot_si512(sign, bits)), least);
      __m512i index = _mm512_permutex2var_epi32(
          low_classes, _mm512_srli_epi32(_mm512_castps_si512(magnitude), 23), high_classes);
      index = _mm512_mask_add_epi32(
          index, _mm512_cmp_ps_mask(magnitude, _mm512_permutexvar_ps(index, next), _CMP_GE_OQ), index, one);
      const __m512 line = _mm512_fmadd_ps(magnitude, _mm512_permutexvar_ps(index, slope),
                                          _mm512_permutexvar_ps(index, start));
      const __m512i code = _mm512_cvttps_epi32(_mm512_min_ps(line, _mm512_permutexvar_ps(index, end)));
      quarters[q] = _mm512_mask_sub_epi32(code, _mm512_test_epi32_mask(bits, sign), last_negative, code);
      const __m512 off = _mm512_abs_ps(_mm512_reduce_ps(line, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
      unsure |= std::uint64_t{_mm512_cmp_ps_mask(off, _mm512_set1_ps(0x1p-12F), _CMP_LT_OQ)} << 16 * q;
    }
    // -1, which has no entry, gets code -1, and 0 by packing.
    const __m512i packed = _mm512_packus_epi16(_mm512_packus_epi32(quarters[0], quarters[1]),
                                               _mm512_packus_epi32(quarters[2], quarters[3]));
    _mm512_storeu_si512(codes + i, _mm512_permutexvar_epi32(order, packed));
    for (; unsure != 0; unsure &= unsure - 1) {
      const std::int64_t at = i + __builtin_ctzll(unsure);
      codes[at] = table.code_of(values[at] / scale);
    }
  }
  for (; i < n; ++i) codes[i] = table.code_of(values[i] / scale);
}
#endif

}  // namespace

void read_moments(const std::uint8_t* codes, const float* scales, bool has_sign, float* values,
                  std::int64_t n) {
  const MomentTable& table = MomentTable::of(has_sign);
  [[maybe_unused]] const bool is_v4 = isa() == Isa::v4;
  for (std::int64_t at = 0; at < n; at += Moments8::kBlock) {
    const std::int64_t count = std::min(Moments8::kBlock, n - at);
    const float scale = scales[at / Moments8::kBlock];
#if defined(__x86_64__)
    if (is_v4) {
      read_block_v4(table, codes + at, scale, values + at, count);
      continue;
    }
#endif
    for (std::int64_t i = at; i < at + count; ++i) values[i] = table.entries[codes[i]] * scale;
  }
}

void write_moments(float* values, bool has_sign, std::uint8_t* codes, float* scales, std::int64_t n) {
  const MomentTable& table = MomentTable::of(has_sign);
  [[maybe_unused]] const bool is_v4 = isa() == Isa::v4;
  for (std::int64_t at = 0; at < n; at += Moments8::kBlock) {
    const std::int64_t count = std::min(Moments8::kBlock, n - at);
    const float largest = run_isa<LargestOfBlock>(static_cast<const float*>(values + at), count);
    const float scale = std::max(largest, Moments8::kLeastScale);
    scales[at / Moments8::kBlock] = scale;
#if defined(__x86_64__)
    if (is_v4 && scale < 0x1p120F) {  // the inverse of a larger one has fewer bits
      write_block_v4(table, values + at, scale, codes + at, count);
      continue;
    }
#endif
    write_block(table, values + at, scale, codes + at, count);
  }
}

}  // namespace mezzo::kernels::cpu
