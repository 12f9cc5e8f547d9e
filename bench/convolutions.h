// The convolutions that are timed: square images and kernels, by every library the same.
#pragma once

#include <cstdint>

namespace bench {

struct Convolution {
  const char* name;
  std::int64_t batch, in, out, size, kernel, padding, groups;
};
inline constexpr Convolution kConvolutions[] = {{"conv2d_3x3", 32, 64, 64, 56, 3, 1, 1},
                                                {"conv2d_depthwise", 32, 64, 64, 56, 3, 1, 64},
                                                {"conv2d_1x1", 32, 64, 256, 56, 1, 0, 1}};

}  // namespace bench
