// The loops of the CPU's means over planes (cpu_planes.h). Sums are taken as everywhere: over the columns of
// a window, and then over these.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/pool/cpu_planes.h"

namespace mezzo::kernels::cpu::detail {

/// Lanes of f32 in a group.
inline constexpr int kMeanLanes = 16;

/// Division by a number. A power of two is multiplied with its reciprocal, which is exact: the same bits.
class Divided {
 public:
  MEZZO_ALWAYS_INLINE explicit Divided(float divisor) : divisor_(divisor), scale_(1.0F / divisor) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &divisor, sizeof bits);
    const std::uint32_t exponent = bits << 1 >> 24;
    exact_ = (bits & 0x007fffffU) == 0 && exponent > 1 && exponent < 253;
  }
  /// y = sum / divisor; sums begin with -0 (see add_up), which becomes 0.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE void store(const float* sum, float* y) const {
    if (exact_) {
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) y[j] = (sum[j] + 0.0F) * scale_;
      return;
    }
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) y[j] = (sum[j] + 0.0F) / divisor_;
  }

 private:
  float divisor_, scale_;
  bool exact_;
};

/// Neighbouring windows of channels-last images: `x` is place `origin` of the first of the rows under them.
struct MeanBlock {
  const float* x;
  std::int64_t origin, row_distance, rows;
  float* y;
  std::int64_t count;
  const PlaceRange* places;
  const float* divisors;   ///< of the windows of the row
  const std::byte* ahead;  ///< what is needed next, from each row as many bytes; or nullptr
  std::int64_t ahead_distance, ahead_bytes;
};

struct MeanOfChannels {
  static void run(MeanBlock block, std::int64_t inner) {
    const std::int64_t share = block.ahead != nullptr ? block.ahead_bytes / block.count + 1 : 0;
    for (std::int64_t o = 0; o < block.count; ++o) {
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const std::byte* const ahead = block.ahead + r * block.ahead_distance + o * share;
        for (std::int64_t b = 0; b < share; b += 64) __builtin_prefetch(ahead + b);
      }
      const PlaceRange places = block.places[o];
      const Divided divided(block.divisors[o]);
      const float* const from = block.x + (places.first - block.origin) * inner;
      float* const to = block.y + o * inner;
      each_group<kMeanLanes>(
          inner, false, MEZZO_GROUP_STEP(c) {
            float sum[kLanes];
            if (places.count() == 2 && block.rows == 2)  // most nets have these, and short loops cost more
              add_four<kLanes>(from + c, from + c + block.row_distance, inner, sum);
            else
              add_up<kLanes>(from + c, inner, places.count(), block.row_distance, block.rows, sum);
            divided.store<kLanes>(sum, to + c);
          });
    }
  }

 private:
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void add_four(const float* upper, const float* lower, std::int64_t right,
                                           float* sum) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) sum[j] = (upper[j] + lower[j]) + (upper[right + j] + lower[right + j]);
  }
  /// The columns of a window and their sum. Both begin with -0: of zeros the compilers make a memset, in
  /// stores too narrow for the loads that follow.
  template <int kLanes>
  MEZZO_ALWAYS_INLINE static void add_up(const float* x, std::int64_t place_distance, std::int64_t places,
                                         std::int64_t row_distance, std::int64_t rows, float* sum) {
    MEZZO_KEEP_LOOP
    for (int j = 0; j < kLanes; ++j) sum[j] = -0.0F;
    for (std::int64_t i = 0; i < places; ++i) {
      float column[kLanes];
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) column[j] = -0.0F;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* const from = x + i * place_distance + r * row_distance;
        MEZZO_KEEP_LOOP
        for (int j = 0; j < kLanes; ++j) column[j] += from[j];
      }
      MEZZO_KEEP_LOOP
      for (int j = 0; j < kLanes; ++j) sum[j] += column[j];
    }
  }
};

/// `rows` rows of the results of row-major planes whose windows are in_pairs(); x begins with the upper row
/// of the first.
struct MeanOfPairs {
  static void run(const float* x, float* y, std::int64_t rows, std::int64_t width, std::int64_t windows,
                  float divisor) {
    const Divided divided(divisor);
    for (std::int64_t o = 0; o < rows; ++o) {
      const float* const upper = x + 2 * o * width;
      const float* const lower = upper + width;
      float* const to = y + o * windows;
      const bool beyond = (rows - 1 - o) * windows >= kMeanLanes;  // into rows that come later
      each_group<kMeanLanes>(
          windows, beyond, MEZZO_GROUP_STEP(p) {
            float sum[kLanes];
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) {
              const float left = upper[2 * (p + j)] + lower[2 * (p + j)];
              const float right = upper[2 * (p + j) + 1] + lower[2 * (p + j) + 1];
              sum[j] = left + right;
            }
            divided.store<kLanes>(sum, to + p);
          });
    }
  }
};

/// The gradient of planes that are all_in_pairs(): `rows` rows of windows.
struct MeanGradientOfPairs {
  static void run(const float* grad, float* dx, std::int64_t rows, std::int64_t windows, float divisor) {
    const Divided divided(divisor);
    const std::int64_t width = 2 * windows;
    for (std::int64_t o = 0; o < rows; ++o) {
      float* const upper = dx + 2 * o * width;
      float* const lower = upper + width;
      each_group<kMeanLanes>(
          windows, false, MEZZO_GROUP_STEP(p) {
            float share[kLanes];
            divided.store<kLanes>(grad + o * windows + p, share);
            float* const first = upper + 2 * p;
            float* const second = lower + 2 * p;
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) first[2 * j] = first[2 * j + 1] = share[j] + 0.0F;
            MEZZO_KEEP_LOOP
            for (int j = 0; j < kLanes; ++j) second[2 * j] = second[2 * j + 1] = share[j] + 0.0F;
          });
    }
  }
};

}  // namespace mezzo::kernels::cpu::detail
