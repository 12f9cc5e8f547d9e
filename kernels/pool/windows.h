// Windows that slide over up to three spatial dims: what convolutions, poolings, unfold and fold have in
// common. Missing dims stand in front, with size 1.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/host_device.h"

namespace mezzo::kernels {

/// Position k of the kernel in window o covers input position o * stride - padding + k * dilation, along each
/// dim; outside of [0, input) it lies in the padding. `padding` is that in front; `output` says what there is
/// behind. Trivially copyable, so that kernels take it by value.
struct Windows {
  static constexpr std::size_t kDims = 3;
  using Sizes = std::array<std::int64_t, kDims>;
  Sizes input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  Sizes stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t position(std::size_t dim, std::int64_t o,
                                                                   std::int64_t k) const {
    return o * stride[dim] - padding[dim] + k * dilation[dim];
  }
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE bool inside(std::size_t dim, std::int64_t position) const {
    return position >= 0 && position < input[dim];
  }
  // The numbers of places in all dims together.
  [[nodiscard]] MEZZO_HD std::int64_t inputs() const { return input[0] * input[1] * input[2]; }
  [[nodiscard]] MEZZO_HD std::int64_t kernels() const { return kernel[0] * kernel[1] * kernel[2]; }
  [[nodiscard]] MEZZO_HD std::int64_t outputs() const { return output[0] * output[1] * output[2]; }
};

}  // namespace mezzo::kernels
