// Moments in 8 bits: blocks of 256 elements of a tensor in row-major order, each with a scale, its largest
// magnitude; an element is the nearest entry of a table of 256, times the scale. The table has seven decades,
// each with twice the entries of the one below.
//
// Source: Dettmers et al., "8-bit optimizers via block-wise quantization", arXiv:2110.02861 (bitsandbytes).
#pragma once

#include <cstdint>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

struct Moments8 {
  static constexpr std::int64_t kBlock = 256;   ///< elements that share a scale
  static constexpr std::int64_t kLeast = 4096;  ///< tensors with fewer elements keep f32
  static constexpr float kLeastScale = 1e-12F;

  [[nodiscard]] MEZZO_HD static std::int64_t blocks(std::int64_t elements) {
    return (elements + kBlock - 1) / kBlock;
  }
  /// The code of 0.
  [[nodiscard]] MEZZO_HD static constexpr std::uint8_t zero(bool has_sign) { return has_sign ? 127 : 0; }

  /// The upper end of decade k of seven.
  [[nodiscard]] MEZZO_HD static constexpr double decade(int k) {
    constexpr double kDecades[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    return kDecades[k];
  }
  /// Entry `code` of the table of moments with a sign, or of those without, in order: 0, 1, and in each
  /// decade the middles of 2^k equal parts of [0.1, 1].
  [[nodiscard]] MEZZO_HD static float entry(bool has_sign, int code) {
    const int place = has_sign ? code - 127 : code;
    if (place == 0) return 0;
    if (place == (has_sign ? 128 : 255)) return 1;
    const int magnitude = has_sign ? (place < 0 ? -place : place) : place + 1;
    int k = 0;
    while (magnitude >> (k + 1) != 0) ++k;
    const double parts = 1 << k, part = magnitude - parts;
    const double value = decade(has_sign ? k : k - 1) * (0.1 + 0.9 * (part + 0.5) / parts);
    return static_cast<float>(place < 0 ? -value : value);
  }
  /// The least number whose code is `code` or above: halfway from the entry before. `code` is not 0.
  [[nodiscard]] MEZZO_HD static float border(bool has_sign, int code) {
    const double middle =
        (static_cast<double>(entry(has_sign, code - 1)) + static_cast<double>(entry(has_sign, code))) / 2;
    const auto rounded = static_cast<float>(middle);
    if (static_cast<double>(rounded) >= middle) return rounded;
    const auto bits = mezzo::detail::bit_cast<std::int32_t>(rounded);  // the next number towards infinity
    return mezzo::detail::bit_cast<float>(bits + (rounded > 0 ? 1 : -1));
  }
  /// The code of x, in [-1, 1], or of 0 for a NaN; `border(code)` for codes above 0.
  template <class Border>
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE static std::uint8_t code_of(bool has_sign, const Border& border,
                                                                         float x) {
    if (x != x) return zero(has_sign);
    int code = 0;
    for (int step = 128; step > 0; step /= 2) {
      if (x >= border(code + step)) code += step;
    }
    return static_cast<std::uint8_t>(code);
  }
};

}  // namespace mezzo::kernels
