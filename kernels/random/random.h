// Functors of random tensors for kernels/random/generate.h: they turn Philox blocks into uniforms, normals
// and integers. Block b of the functor reads counter offset + b (float), or offset + 2 b and the next one
// (double and integers, which take two words each).
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/core/random.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/kernels/random/normal_f64.h"
#include "mezzo/kernels/random/random_math.h"

namespace mezzo::kernels {

/// The words of one draw of a Generator.
struct RandomWords {
  PhiloxKey key;
  std::uint64_t offset;
  const GeneratorState* base;  ///< see RandomRange
  explicit RandomWords(const RandomRange& range)
      : key(philox_key(range.first.seed)), offset(range.first.offset), base(range.base) {}
  /// To be called once by each thread of a device before it asks for words.
  MEZZO_HD MEZZO_ALWAYS_INLINE void read_base() {
    if (base == nullptr) return;
    key = philox_key(base->seed);
    offset += base->offset;
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PhiloxBlock operator()(std::int64_t block) const {
    return Philox{}(philox_counter(offset + static_cast<std::uint64_t>(block)), key);
  }
};

/// The upper 64 bits of a * b.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::uint64_t multiply_high(std::uint64_t a,
                                                                       std::uint64_t b) noexcept {
  const std::uint64_t a1 = a >> 32, a0 = a & 0xffffffffU, b1 = b >> 32, b0 = b & 0xffffffffU;
  const std::uint64_t low = a1 * b0 + ((a0 * b0) >> 32);
  const std::uint64_t middle = a0 * b1 + (low & 0xffffffffU);
  return a1 * b1 + (low >> 32) + (middle >> 32);
}

/// low + span * u, u uniform in [0, 1), within [first, last]: values of the result's dtype, so that no
/// rounding leads out of the interval that was asked for.
template <class T>
struct UniformBlocks;
template <>
struct UniformBlocks<float> {
  RandomWords words;
  float low, span, first, last;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, float* values) const {
    const PhiloxBlock four = words(block);
    for (int i = 0; i < 4; ++i)
      values[i] = math::detail::clamp(math::detail::mul_add(uniform_f32(four[i]), span, low), first, last);
  }
};
template <>
struct UniformBlocks<double> {
  RandomWords words;
  double low, span, first, last;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for (int i = 0; i < 2; ++i) {
      const PhiloxBlock four = words(2 * block + i);
      for (int j = 0; j < 2; ++j) {
        const double u = uniform_f64(four[2 * j], four[2 * j + 1]);
        values[2 * i + j] = math::detail::clamp(math::detail::mul_add(u, span, low), first, last);
      }
    }
  }
};

/// -log(1 - u) / lambda of UniformBlocks' u; for u = 0 that of half the least u above, so that none is 0.
template <class T>
struct ExponentialBlocks : UniformBlocks<T> {
  T lambda;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, T* values) const {
    UniformBlocks<T>::operator()(block, values);
    for (int i = 0; i < 4; ++i) values[i] = time_left(values[i]) / lambda;
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static float time_left(float u) {
    return u == 0.0F ? 0x1p-25F : -math::log(1.0F - u);
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static double time_left(double u) {
    return u == 0.0 ? 0x1p-54 : -detail::log_f64(1.0 - u);
  }
};

/// mean + deviation * z, z standard normal. A pair comes from two words (float) or a block (double).
template <class T>
struct NormalBlocks;
template <>
struct NormalBlocks<float> {
  RandomWords words;
  float mean, deviation;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, float* values) const {
    const PhiloxBlock four = words(block);
    for (int i = 0; i < 4; i += 2) {
      const NormalPair pair = normal_pair(four[i], four[i + 1]);
      values[i] = math::detail::mul_add(pair.first, deviation, mean);
      values[i + 1] = math::detail::mul_add(pair.second, deviation, mean);
    }
  }
};
template <>
struct NormalBlocks<double> {
  RandomWords words;
  double mean, deviation;
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, double* values) const {
    for (int i = 0; i < 2; ++i) {
      const NormalPairF64 pair = normal_pair_f64(words(2 * block + i));
      values[2 * i] = math::detail::mul_add(pair.first, deviation, mean);
      values[2 * i + 1] = math::detail::mul_add(pair.second, deviation, mean);
    }
  }
};

/// low + the upper 64 bits of (64 random bits) * range: uniform in [low, low + range) up to range / 2^64.
struct IntegerBlocks {
  RandomWords words;
  std::int64_t low;
  std::uint64_t range;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t value(std::uint32_t high_word,
                                                                std::uint32_t low_word) const {
    const std::uint64_t bits = (std::uint64_t{high_word} << 32) | low_word;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + multiply_high(bits, range));
  }
  MEZZO_HD MEZZO_ALWAYS_INLINE void operator()(std::int64_t block, std::int64_t* values) const {
    for (int i = 0; i < 2; ++i) {
      const PhiloxBlock four = words(2 * block + i);
      values[2 * i] = value(four[0], four[1]);
      values[2 * i + 1] = value(four[2], four[3]);
    }
  }
};

}  // namespace mezzo::kernels
