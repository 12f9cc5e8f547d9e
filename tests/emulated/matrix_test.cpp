// The matrix units of the emulated device, against products by the definition of their fragments.
#include "emulated_cuda/matrix.h"

#include <array>
#include <cstdint>
#include <vector>

#include "emulated/support.h"
#include "mezzo/core/float16.h"

namespace emulated_test {
namespace {

using Matrix = Emulated;
using MatrixDeathTest = Emulated;

/// Element (row, column) of a test matrix: a small integer, so that every sum is exact.
int element(int matrix, int row, int column) {
  return (matrix * 5 + row * 7 + column * 3 + row * column) % 17 - 8;
}

template <class S>
std::uint32_t pair(float low, float high) {
  return S(low).bits | static_cast<std::uint32_t>(S(high).bits) << 16;
}

template <class S>
__global__ void multiply(emulated_cuda::HalfType type, float* out) {
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  const auto of = [](int matrix, int row, int column) {
    return static_cast<float>(element(matrix, row, column));
  };
  std::uint32_t a[4], b[2];
  for (int h = 0; h < 2; ++h) {
    const int k = 8 * h + 2 * t;
    for (int i = 0; i < 2; ++i) a[i + 2 * h] = pair<S>(of(0, g + 8 * i, k), of(0, g + 8 * i, k + 1));
    b[h] = pair<S>(of(1, k, g), of(1, k + 1, g));
  }
  float c0[2] = {1.0F, 2.0F}, c1[2] = {3.0F, 4.0F};
  emulated_cuda::multiply_add_16x8(type, 16, c0, c1, a, b);
  for (int j = 0; j < 2; ++j) {
    out[(threadIdx.x / 32 * 16 + g) * 8 + 2 * t + j] = c0[j];
    out[(threadIdx.x / 32 * 16 + g + 8) * 8 + 2 * t + j] = c1[j];
  }
}

void expect_product(const std::vector<float>& seen) {
  for (int warp = 0; warp < 2; ++warp) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        int sum = column % 2 + (row < 8 ? 1 : 3);
        for (int k = 0; k < 16; ++k) sum += element(0, row, k) * element(1, k, column);
        EXPECT_EQ(seen[static_cast<std::size_t>((warp * 16 + row) * 8 + column)], static_cast<float>(sum))
            << row << ", " << column;
      }
    }
  }
}

TEST_F(Matrix, ProductsAreThoseOfTheFragments) {
  float* const out = device_array<float>(256);
  MEZZO_OK(launch({1, 64}, multiply<mezzo::Half>, emulated_cuda::HalfType::float16, out));
  expect_product(to_host(out, 256));
  MEZZO_OK(launch({1, 64}, multiply<mezzo::BFloat16>, emulated_cuda::HalfType::bfloat16, out));
  expect_product(to_host(out, 256));
}

__global__ void share(int* out) {
  int of[32];
  emulated_cuda::share_places(static_cast<int>(threadIdx.x) * 3, of);
  for (int lane = 0; lane < 32; ++lane) out[threadIdx.x * 32 + static_cast<unsigned>(lane)] = of[lane];
}

TEST_F(Matrix, EveryLaneSeesThePlacesOfItsWarp) {
  int* const out = device_array<int>(64 * 32);
  MEZZO_OK(launch({1, 64}, share, out));
  const auto seen = to_host(out, 64 * 32);
  for (int t = 0; t < 64; ++t) {
    for (int lane = 0; lane < 32; ++lane)
      EXPECT_EQ(seen[static_cast<std::size_t>(t * 32 + lane)], (t / 32 * 32 + lane) * 3);
  }
}

/// Lane 7 goes to another function of the matrix units than the rest.
__global__ void part_ways() {
  int of[32];
  float c0[2] = {}, c1[2] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x == 7)
    emulated_cuda::multiply_add_16x8(emulated_cuda::HalfType::float16, 16, c0, c1, a, b);
  else
    emulated_cuda::share_places(0, of);
}

__global__ void stay_away() {
  int of[32];
  if (threadIdx.x != 7) emulated_cuda::share_places(0, of);
}

TEST_F(MatrixDeathTest, AllLanesHaveToComeToTheSameFunction) {
  EXPECT_DEATH(run({1, 32}, part_ways), "the lanes of its mask do not meet");
  EXPECT_DEATH(run({1, 32}, stay_away), "stay_away.*names lane 7, but that lane has returned");
}

__global__ void multiply_bf16() {
  float c0[2] = {}, c1[2] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  emulated_cuda::multiply_add_16x8(emulated_cuda::HalfType::bfloat16, 8, c0, c1, a, b);
}

TEST_F(MatrixDeathTest, OlderDevicesHaveNoUnitsForBf16) {
  start_with("MEZZO_EMULATED_CAPABILITY", "75");
  EXPECT_DEATH(run({1, 32}, multiply_bf16), "expected compute capability 80, got 75");
}

}  // namespace
}  // namespace emulated_test
