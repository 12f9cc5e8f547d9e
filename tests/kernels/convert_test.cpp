// Conversions between all dtypes against the rules of convert.h, worked out in long double (64 mantissa bits:
// exact for every value of every dtype), and against each other across the instruction sets.
#include "mezzo/kernels/cpu/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mezzo/core/float16.h"
#include "mezzo/kernels/cpu/isa.h"

namespace mezzo::kernels::cpu {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<Isa> available() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::base, Isa::v3, Isa::v4}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

/// The value nearest to `x` with `mantissa` bits after the leading one and exponents from `lowest`, ties to
/// even.
long double round_to(long double x, int mantissa, int lowest, long double overflow) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), lowest);
  const long double unit = std::ldexp(1.0L, exponent - mantissa);
  const long double rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) >= overflow ? std::copysign(std::numeric_limits<long double>::infinity(), x)
                                        : rounded;
}

/// The value of a 16-bit pattern, from the definition of the format.
long double decode(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const long double sign = (bits & 0x8000) != 0 ? -1.0L : 1.0L;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<long double>::infinity()
                         : std::copysign(std::numeric_limits<long double>::quiet_NaN(), sign);
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<long double>(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(static_cast<long double>(mantissa + (1 << mantissa_bits)),
                           exponent - bias - mantissa_bits);
}

/// The value of an e4m3 pattern: the format has numbers where others have infinity, and one NaN.
long double decode_e4m3(std::uint8_t bits) {
  const long double sign = (bits & 0x80) != 0 ? -1.0L : 1.0L;
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return std::copysign(std::numeric_limits<long double>::quiet_NaN(), sign);
  return sign *
         std::ldexp(static_cast<long double>(mantissa + (exponent > 0 ? 8 : 0)), std::max(exponent, 1) - 10);
}

/// What e4m3 makes of a number: finite ones stay finite, and no others look so.
long double round_to_e4m3(long double x) {
  if (std::isinf(x)) return std::copysign(std::numeric_limits<long double>::quiet_NaN(), x);
  const long double rounded = round_to(x, 3, -6, std::numeric_limits<long double>::infinity());
  return std::fabs(rounded) > 448 ? std::copysign(448.0L, x) : rounded;
}

/// Element i of an array, as a number.
long double value_at(const Bytes& bytes, DType dtype, std::size_t i) {
  const std::uint8_t* const at = bytes.data() + i * static_cast<std::size_t>(size_of(dtype));
  const auto read = [&]<class T>(T x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (dtype) {
    case DType::f16:
      return decode(read(std::uint16_t{}), 5, 10);
    case DType::bf16:
      return decode(read(std::uint16_t{}), 8, 7);
    case DType::f32:
      return read(float{});
    case DType::f64:
      return read(double{});
    case DType::i8:
      return read(std::int8_t{});
    case DType::i16:
      return read(std::int16_t{});
    case DType::i32:
      return read(std::int32_t{});
    case DType::i64:
      return static_cast<long double>(read(std::int64_t{}));
    case DType::u8:
      return *at;
    case DType::f8_e4m3:
      return decode_e4m3(*at);
    case DType::f8_e5m2:
      return decode(static_cast<std::uint16_t>(*at << 8), 5, 10);
    case DType::boolean:
      break;
  }
  return *at != 0 ? 1 : 0;
}

template <class T>
long double to_integer(long double x, bool from_integer) {
  if (from_integer) return static_cast<long double>(static_cast<T>(static_cast<std::int64_t>(x)));
  if (std::isnan(x)) return 0;
  const long double low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return std::fmin(std::fmax(std::trunc(x), low), high);
}

/// What convert() must make of the number `x`.
long double expected_value(long double x, DType from, DType to) {
  switch (to) {
    case DType::f16:
      return round_to(x, 10, -14, 65536.0L);
    case DType::bf16:
      return round_to(x, 7, -126, 0x1p128L);
    case DType::f32:
      return round_to(x, 23, -126, 0x1p128L);
    case DType::f64:
      return round_to(x, 52, -1022, std::numeric_limits<long double>::infinity());
    case DType::i8:
      return to_integer<std::int8_t>(x, !is_floating(from));
    case DType::i16:
      return to_integer<std::int16_t>(x, !is_floating(from));
    case DType::i32:
      return to_integer<std::int32_t>(x, !is_floating(from));
    case DType::i64:
      return to_integer<std::int64_t>(x, !is_floating(from));
    case DType::u8:
      return to_integer<std::uint8_t>(x, !is_floating(from));
    case DType::f8_e4m3:
      return round_to_e4m3(x);
    case DType::f8_e5m2:
      return round_to(x, 2, -14, 65536.0L);
    case DType::boolean:
      break;
  }
  return x != 0 ? 1 : 0;
}

/// A number halfway between two neighbours of a narrow dtype, or next to that by the smallest step an i64 or
/// f64 can make: whoever rounds twice on the way gets it wrong.
std::int64_t almost_tie(std::mt19937_64& random, int bits_available) {
  const int kept = std::array{3, 4, 8, 11}[random() % 4];
  const auto significand =
      static_cast<std::int64_t>((1U << (kept - 1)) | (random() & ((1U << (kept - 1)) - 1)));
  const std::int64_t tie = (2 * significand + 1) << (bits_available - kept - 1);
  return tie + static_cast<std::int64_t>(random() % 3) - 1;
}

/// Random bit patterns, so that every exponent, NaN payload and subnormal appears, mixed with numbers of
/// everyday size, the edges of every dtype, and numbers hard to round.
Bytes samples(DType dtype, std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto size = static_cast<std::size_t>(size_of(dtype));
  Bytes bytes(n * size);
  const double edges[] = {0.0,     -0.0,    0.5,     -0.5,   -1.0,       254.9,   255.0,    256.0,
                          65504.0, 65519.9, 65520.0, 0x1p31, 0x1p31 - 1, -0x1p31, 0x1p63,   -0x1p63,
                          2049.0,  2051.0,  257.0,   259.0,  0x1.8p-25,  0x1p-25, 0x1p-149, 0x1.fffffep127};
  const auto put = [&](std::size_t i, const auto& value) {
    std::memcpy(bytes.data() + i * size, &value, size);
  };
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t word = random();
    const bool pattern = is_16bit(dtype) || is_float8(dtype) || i % 4 == 0;
    if (dtype == DType::boolean) {
      put(i, word & 1);
    } else if (!is_floating(dtype)) {
      // Integers of every magnitude: a random number of leading zeros or ones.
      if (pattern || dtype == DType::u8)
        put(i, word);
      else if (i % 4 == 1)
        put(i, almost_tie(random, dtype == DType::i64 ? 63 : 31));
      else
        put(i, static_cast<std::int64_t>(word) >> (random() % (8 * size)));
    } else if (pattern) {
      put(i, word);
    } else {
      double x = edges[i / 4 % std::size(edges)];
      if (i % 4 == 1) x = std::ldexp(static_cast<double>(static_cast<std::int64_t>(word)), -63) * 300;
      if (i % 4 == 2)
        x = std::ldexp(static_cast<double>(almost_tie(random, 52)), static_cast<int>(random() % 40) - 66);
      if (dtype == DType::f32)
        put(i, static_cast<float>(x));
      else
        put(i, x);
    }
  }
  return bytes;
}

Bytes converted(const Bytes& source, DType from, DType to) {
  const std::size_t n = source.size() / static_cast<std::size_t>(size_of(from));
  Bytes result(n * static_cast<std::size_t>(size_of(to)), 0xAB);
  convert(source.data(), from, result.data(), to, static_cast<std::int64_t>(n));
  return result;
}

TEST(Convert, EveryPairFollowsTheRules) {
  const std::size_t n = 30011;
  for (const DType from : kAllDTypes) {
    const Bytes source = samples(from, n, 1);
    for (const DType to : kAllDTypes) {
      SCOPED_TRACE(to_string(from) + " to " + to_string(to));
      const Bytes result = converted(source, from, to);
      for (std::size_t i = 0; i < n; ++i) {
        const long double x = value_at(source, from, i);
        const long double want = expected_value(x, from, to), got = value_at(result, to, i);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << "element " << i;
        } else {
          ASSERT_EQ(got, want) << "element " << i << ", source " << x;
        }
        if (is_floating(to)) {
          ASSERT_EQ(std::signbit(got), std::signbit(want)) << "element " << i << ", source " << x;
        }
      }
    }
  }
}

TEST(Convert, EverySixteenBitPatternWidensExactlyAndComesBack) {
  for (const DType from : {DType::f16, DType::bf16}) {
    Bytes source(65536 * 2);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) std::memcpy(&source[bits * 2], &bits, 2);
    for (const DType wide : {DType::f32, DType::f64}) {
      SCOPED_TRACE(to_string(from) + " through " + to_string(wide));
      const Bytes widened = converted(source, from, wide), back = converted(widened, wide, from);
      for (std::size_t i = 0; i < 65536; ++i) {
        const long double x = value_at(source, from, i);
        std::uint16_t bits = 0;
        std::memcpy(&bits, &back[i * 2], 2);
        if (std::isnan(x)) {
          const int quiet = from == DType::f16 ? 0x0200 : 0x0040;
          ASSERT_TRUE(std::isnan(value_at(widened, wide, i)));
          ASSERT_EQ(bits, i | static_cast<std::size_t>(quiet)) << "sign and payload stay, quiet bit is set";
        } else {
          ASSERT_EQ(value_at(widened, wide, i), x);
          ASSERT_EQ(bits, i);
        }
      }
    }
  }
}

TEST(Convert, EveryInstructionSetGivesTheSameBitsAtEveryLengthAndOffset) {
  for (const DType from : kAllDTypes) {
    const Bytes source = samples(from, 200, 2);
    for (const DType to : kAllDTypes) {
      for (std::int64_t n = 0; n <= 70; ++n) {
        for (const std::int64_t offset : {0, 1, 3}) {
          const auto run = [&](Isa variant) {
            const IsaGuard guard(variant);
            Bytes result(80 * 8, 0xAB);
            convert(source.data() + offset * size_of(from), from, result.data() + offset * size_of(to), to,
                    n);
            return result;
          };
          const Bytes base = run(Isa::base);
          for (const Isa variant : available()) {
            ASSERT_EQ(run(variant), base) << to_string(from) << " to " << to_string(to) << ", n " << n
                                          << ", variant " << static_cast<int>(variant);
          }
          for (std::size_t i = static_cast<std::size_t>((offset + n) * size_of(to)); i < base.size(); ++i) {
            ASSERT_EQ(base[i], 0xAB) << "written behind the end";
          }
        }
      }
    }
  }
}

TEST(Convert, HardwareAndPlainNarrowingAgreeOnPatternsOfEveryKind) {
  std::vector<float> source(1 << 16);
  std::uint32_t pattern = 0;
  for (int round = 0; round < 64; ++round) {
    for (float& x : source) {
      std::memcpy(&x, &pattern, 4);
      pattern += 1021;  // prime: 4 million patterns, every exponent and sign
    }
    std::vector<std::uint16_t> base(source.size()), other(source.size());
    const auto n = static_cast<std::int64_t>(source.size());
    {
      const IsaGuard guard(Isa::base);
      convert(source.data(), DType::f32, base.data(), DType::f16, n);
    }
    for (const Isa variant : available()) {
      const IsaGuard guard(variant);
      convert(source.data(), DType::f32, other.data(), DType::f16, n);
      ASSERT_EQ(other, base) << "round " << round;
    }
  }
}

TEST(Convert, AnyByteButZeroIsTrue) {
  const Bytes source{0, 1, 2, 255};
  EXPECT_EQ(converted(source, DType::boolean, DType::u8), (Bytes{0, 1, 1, 1}));
  EXPECT_EQ(converted(source, DType::u8, DType::boolean), (Bytes{0, 1, 1, 1}));
}

TEST(Gather, ReadsEveryStrideOfEveryPair) {
  const std::int64_t n = 1100;  // above two tiles of the strided form
  for (const DType from : kAllDTypes) {
    const Bytes source = samples(from, 3 * n, 3);
    const auto from_size = static_cast<std::size_t>(size_of(from));
    for (const DType to : kAllDTypes) {
      for (const std::int64_t stride : {0, 1, 2, 3, -1, -2}) {
        const std::int64_t first = stride < 0 ? 3 * n - 1 : 0;
        Bytes picked;
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = source.begin() + (first + i * stride) * size_of(from);
          picked.insert(picked.end(), at, at + static_cast<std::ptrdiff_t>(from_size));
        }
        Bytes result(static_cast<std::size_t>(n * size_of(to)));
        gather(source.data() + first * size_of(from), from, stride, result.data(), to, n);
        ASSERT_EQ(result, converted(picked, from, to))
            << to_string(from) << " to " << to_string(to) << ", " << stride;
      }
    }
  }
}

TEST(Scatter, WritesEveryStrideOfEveryPairAndNothingBetween) {
  const std::int64_t n = 1100;
  for (const DType from : kAllDTypes) {
    const Bytes source = samples(from, n, 4);
    for (const DType to : kAllDTypes) {
      const Bytes dense = converted(source, from, to);
      const auto size = static_cast<std::size_t>(size_of(to));
      for (const std::int64_t stride : {1, 2, 3, -1, -2}) {
        const std::int64_t first = stride < 0 ? 3 * n - 1 : 0;
        Bytes expected(3 * static_cast<std::size_t>(n) * size, 0xAB), result = expected;
        for (std::int64_t i = 0; i < n; ++i) {
          std::memcpy(&expected[static_cast<std::size_t>(first + i * stride) * size],
                      &dense[static_cast<std::size_t>(i) * size], size);
        }
        scatter(source.data(), from, result.data() + static_cast<std::size_t>(first) * size, to, stride, n);
        ASSERT_EQ(result, expected) << to_string(from) << " to " << to_string(to) << ", " << stride;
      }
    }
  }
}

/// Sizes and strides of a matrix in memory: rows or columns without gaps, with gaps, backwards, spread.
struct Strides {
  std::int64_t rows, cols, row_stride, col_stride;
  [[nodiscard]] std::int64_t extent() const {
    return (rows - 1) * std::abs(row_stride) + (cols - 1) * std::abs(col_stride) + 1;
  }
  [[nodiscard]] std::int64_t first() const {
    return (row_stride < 0 ? (1 - rows) * row_stride : 0) + (col_stride < 0 ? (1 - cols) * col_stride : 0);
  }
};

std::vector<Strides> matrices() {
  std::vector<Strides> all;
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 37}, {37, 1}, {3, 5}, {7, 33}, {33, 7}, {150, 70}}) {
    for (const std::int64_t gap : {0, 3}) {
      all.push_back({rows, cols, cols + gap, 1});
      all.push_back({rows, cols, 1, rows + gap});
      all.push_back({rows, cols, -(cols + gap), 1});
      all.push_back({rows, cols, 2 * cols + gap, 2});
    }
  }
  all.push_back({2500, 3, 1, 2500});
  return all;
}

constexpr DType kSome[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i64, DType::u8};

TEST(GatherMatrix, IsAGatherOfEveryRow) {
  for (const DType from : kSome) {
    for (const DType to : kSome) {
      for (const Strides& m : matrices()) {
        const Bytes source = samples(from, static_cast<std::size_t>(m.extent()), 5);
        const std::uint8_t* const first = source.data() + m.first() * size_of(from);
        Bytes expected(static_cast<std::size_t>(m.rows * m.cols * size_of(to)) + 16, 0xAB), result = expected;
        for (std::int64_t i = 0; i < m.rows; ++i) {
          gather(first + i * m.row_stride * size_of(from), from, m.col_stride,
                 expected.data() + i * m.cols * size_of(to), to, m.cols);
        }
        gather_matrix(first, from, m.row_stride, m.col_stride, result.data(), to, m.rows, m.cols);
        ASSERT_EQ(result, expected) << to_string(from) << " to " << to_string(to) << ", " << m.rows << " x "
                                    << m.cols << ", strides " << m.row_stride << " " << m.col_stride;
      }
    }
  }
}

TEST(ScatterMatrix, IsAScatterOfEveryRow) {
  for (const DType from : kSome) {
    for (const DType to : kSome) {
      for (const Strides& m : matrices()) {
        const Bytes source = samples(from, static_cast<std::size_t>(m.rows * m.cols), 6);
        Bytes expected(static_cast<std::size_t>(m.extent() * size_of(to)) + 16, 0xAB), result = expected;
        for (std::int64_t i = 0; i < m.rows; ++i) {
          scatter(source.data() + i * m.cols * size_of(from), from,
                  expected.data() + (m.first() + i * m.row_stride) * size_of(to), to, m.col_stride, m.cols);
        }
        scatter_matrix(source.data(), from, result.data() + m.first() * size_of(to), to, m.row_stride,
                       m.col_stride, m.rows, m.cols);
        ASSERT_EQ(result, expected) << to_string(from) << " to " << to_string(to) << ", " << m.rows << " x "
                                    << m.cols << ", strides " << m.row_stride << " " << m.col_stride;
      }
    }
  }
}

TEST(GatherMatrix, OfNothingTouchesNothing) {
  std::uint8_t byte = 7;
  gather_matrix(nullptr, DType::f16, 1, 0, &byte, DType::f32, 0, 5);
  gather_matrix(nullptr, DType::f16, 1, 5, &byte, DType::f32, 5, 0);
  scatter_matrix(nullptr, DType::f32, &byte, DType::f16, 5, 1, 0, 5);
  EXPECT_EQ(byte, 7);
}

}  // namespace
}  // namespace mezzo::kernels::cpu
