// Which convolutions' places 32 bits count.
#include "mezzo/kernels/conv/cuda_places.h"

#include <gtest/gtest.h>

namespace mezzo::kernels::cuda {
namespace {

TEST(ConvPlaces, ThirtyTwoBitsCountAllOrSixtyFourDo) {
  ConvShape s{31, 64, 64, 64, false, {}};
  s.windows.input = s.windows.output = {1, 1 << 10, 1 << 10};
  s.windows.kernel = {1, 3, 3}, s.windows.padding = {0, 1, 1};
  EXPECT_TRUE(has_narrow_places(s));
  s.batch = 32;
  EXPECT_FALSE(has_narrow_places(s)) << "2^31 elements";
  s.batch = 1;
  EXPECT_TRUE(has_narrow_places(s));
  s.windows.dilation[2] = std::int64_t{1} << 30;
  EXPECT_FALSE(has_narrow_places(s)) << "a position beyond 2^31";
  s.windows.dilation[2] = 1, s.windows.padding[1] = (std::int64_t{1} << 31) - 100;
  EXPECT_FALSE(has_narrow_places(s)) << "padding";
  s.windows.padding[1] = 1, s.windows.stride[1] = std::int64_t{1} << 31;
  EXPECT_FALSE(has_narrow_places(s)) << "a stride that is divided by";
}

}  // namespace
}  // namespace mezzo::kernels::cuda
