// Which windows and which places meet along one dim: ranges, so that loops need not ask at each step.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/pool/windows.h"

namespace mezzo::kernels {

/// [first, last); empty where last <= first.
struct PlaceRange {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t count() const { return last - first; }
};

/// The windows in which position k of the kernel is a place of the input along `dim`.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE PlaceRange windows_at(const Windows& windows, std::size_t dim,
                                                                 std::int64_t k) {
  const std::int64_t step = windows.stride[dim], out = windows.output[dim];
  const std::int64_t before = windows.padding[dim] - k * windows.dilation[dim];
  const std::int64_t last = windows.input[dim] - 1 + before;
  const std::int64_t first = before <= 0 ? 0 : quotient(before + step - 1, step);
  const std::int64_t end = last < 0 ? 0 : quotient(last, step) + 1;
  return {first, end < out ? end : out};
}

}  // namespace mezzo::kernels
