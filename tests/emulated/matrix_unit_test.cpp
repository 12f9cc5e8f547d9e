// Products in a warp as kernels/cuda/matrix_unit.h makes them for each generation of GPUs, from shared memory
// on, to the bit against sums on the host.
#include "mezzo/kernels/cuda/matrix_unit.h"

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "emulated/support.h"
#include "mezzo/core/float16.h"

namespace emulated_test {
namespace {

using mezzo::BFloat16, mezzo::Half;
using mezzo::kernels::cuda::RawWords, mezzo::kernels::cuda::Shared;
using Chunk = RawWords<4>;

constexpr int kRows = 16, kColumns = 8;

/// c [16, 8] += a [16, 16] times b [16, 8]; a and b are chunks of eight elements. Two warps do the same.
template <class S>
__global__ void multiply_chunks(const Chunk* a, const Chunk* b, float* c) {
  const Shared<Chunk> of_a(2 * kRows), of_b(kRows, 2 * kRows * sizeof(Chunk));
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, g = lane / 4, t = lane % 4;
  if (thread < 2 * kRows) of_a.set(threadIdx.x, a[thread]);
  if (thread < kRows) of_b.set(threadIdx.x, b[thread]);
  __syncthreads();
  std::uint32_t left[4], right[4];
  mezzo::kernels::cuda::load_matrices<false>(of_a, lane % 16 * 2 + lane / 16, left);
  mezzo::kernels::cuda::load_matrices<true>(of_b, lane % 16, right);
  float* const upper = c + (thread / 32 * kRows + g) * kColumns + 2 * t;
  float* const lower = upper + 8 * kColumns;
  float c0[2] = {upper[0], upper[1]}, c1[2] = {lower[0], lower[1]};
  mezzo::kernels::cuda::multiply_add_16x8<S>(c0, c1, left, {right[0], right[1]});
  for (int j = 0; j < 2; ++j) upper[j] = c0[j], lower[j] = c1[j];
}

/// Numbers of many sizes, so that the order of a sum shows in its bits.
template <class S>
std::vector<S> numbers(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<S> result;
  while (result.size() < count) {
    const auto of_unit = static_cast<float>(static_cast<int>(random() % 4096) - 2048) / 2048.0F;
    result.push_back(S(of_unit * static_cast<float>(1U << random() % 12)));
  }
  return result;
}

template <class S>
std::vector<Chunk> chunks_of(const std::vector<S>& elements) {
  std::vector<Chunk> result(elements.size() / 8);
  for (std::size_t i = 0; i < elements.size(); ++i)
    result[i / 8].words[i % 8 / 2] |= std::uint32_t{elements[i].bits} << 16 * (i % 2);
  return result;
}

template <class S>
void expect_sums() {
  const std::vector<S> a = numbers<S>(1, kRows * 16), b = numbers<S>(2, 16 * kColumns);
  const std::vector<float> begin(2 * kRows * kColumns, 0.3F);
  float* const c = to_device(begin);
  MEZZO_OK(launch({1, 64, 3 * kRows * sizeof(Chunk)}, multiply_chunks<S>, to_device(chunks_of(a)),
                  to_device(chunks_of(b)), c));
  const std::vector<float> seen = to_host(c, begin.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::size_t row = i / kColumns % kRows, column = i % kColumns;
    float sum = begin[i];
    for (std::size_t k = 0; k < 16; ++k)
      sum += static_cast<float>(a[row * 16 + k]) * static_cast<float>(b[k * kColumns + column]);
    EXPECT_EQ(seen[i], sum) << row << ", " << column;
  }
}

class MatrixUnit : public Emulated, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { start_with("MEZZO_EMULATED_CAPABILITY", GetParam()); }
};

TEST_P(MatrixUnit, HasTheBitsOfTheHost) {
  expect_sums<Half>();
  expect_sums<BFloat16>();
}

INSTANTIATE_TEST_SUITE_P(, MatrixUnit, ::testing::Values("70", "75", "80"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace emulated_test
