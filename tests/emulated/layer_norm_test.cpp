// A layer norm as a real kernel would be written, with shuffles and shared memory, against the same in f64.
#include <cmath>
#include <random>

#include "emulated/support.h"
#include "mezzo/kernels/cuda/shared.h"

namespace emulated_test {
namespace {

using mezzo::kernels::cuda::Shared;
using LayerNorm = Emulated;

__device__ float sum_over_block(float value, const Shared<float>& partial) {
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, static_cast<int>(distance));
  }
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  if (lane == 0) partial.set(warp, value);
  __syncthreads();
  value = lane < warps ? partial.get(lane) : 0.0F;
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, static_cast<int>(distance));
  }
  __syncthreads();
  return value;
}

/// One block per row; the mean first, then the variance around it.
__global__ void __launch_bounds__(256)
    layer_norm(const float* __restrict__ x, const float* __restrict__ scale, const float* __restrict__ shift,
               float* __restrict__ y, int columns) {
  const Shared<float> partial(32);
  const float* const row = x + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns);
  float* const out = y + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(columns);
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0;
  for (int i = first; i < columns; i += step) sum += __ldg(row + i);
  const float mean = sum_over_block(sum, partial) / static_cast<float>(columns);
  float squares = 0;
  for (int i = first; i < columns; i += step) squares += (row[i] - mean) * (row[i] - mean);
  const float variance = sum_over_block(squares, partial) / static_cast<float>(columns);
  const float factor = 1.0F / std::sqrt(variance + 1e-5F);
  for (int i = first; i < columns; i += step) out[i] = (row[i] - mean) * factor * scale[i] + shift[i];
}

TEST_F(LayerNorm, AgreesWithDoublePrecision) {
  constexpr std::size_t kRows = 3;
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  for (const std::size_t columns : {1UL, 31UL, 257UL, 1000UL}) {
    std::vector<float> x(kRows * columns), scale(columns), shift(columns);
    for (auto* const values : {&x, &scale, &shift}) {
      for (float& value : *values) value = normal(random);
    }
    float* const y = device_array<float>(x.size());
    MEZZO_OK(launch({kRows, 256, 128}, layer_norm, to_device(x), to_device(scale), to_device(shift), y,
                    static_cast<int>(columns)));
    const auto seen = to_host(y, x.size());
    for (std::size_t r = 0; r < kRows; ++r) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < columns; ++i) mean += static_cast<double>(x[r * columns + i]);
      mean /= static_cast<double>(columns);
      for (std::size_t i = 0; i < columns; ++i) {
        const double centred = static_cast<double>(x[r * columns + i]) - mean;
        variance += centred * centred;
      }
      variance /= static_cast<double>(columns);
      for (std::size_t i = 0; i < columns; ++i) {
        const double normed = (static_cast<double>(x[r * columns + i]) - mean) / std::sqrt(variance + 1e-5);
        const double expected = normed * static_cast<double>(scale[i]) + static_cast<double>(shift[i]);
        ASSERT_NEAR(static_cast<double>(seen[r * columns + i]), expected, 1e-5) << r << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace emulated_test
