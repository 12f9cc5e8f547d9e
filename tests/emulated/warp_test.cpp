// Warp functions of the emulated device: shuffles in all forms, votes, masks, and wrong uses.
#include <cstdint>
#include <type_traits>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Warp = Emulated;
using WarpDeathTest = Emulated;

constexpr unsigned kAll = 0xffffffffU;

template <class T>
__global__ void all_shuffles(T* out) {
  const unsigned t = threadIdx.x;
  const T mine = static_cast<T>(t) * static_cast<T>(1000003);
  out[t] = __shfl_sync(kAll, mine, 5);
  out[blockDim.x + t] = __shfl_sync(kAll, mine, static_cast<int>(t + 3), 8);
  out[2 * blockDim.x + t] = __shfl_xor_sync(kAll, mine, 17);
  out[3 * blockDim.x + t] = __shfl_down_sync(kAll, mine, 4U);
  out[4 * blockDim.x + t] = __shfl_down_sync(kAll, mine, 3U, 16);
}

/// The lane that each form reads, by the definitions in the CUDA programming guide.
unsigned expected_source(unsigned form, unsigned lane) {
  switch (form) {
    case 0:
      return 5;
    case 1:
      return lane / 8 * 8 + (lane + 3) % 8;
    case 2:
      return lane ^ 17U;
    case 3:
      return lane + 4 < 32 ? lane + 4 : lane;
    default:
      return lane % 16 + 3 < 16 ? lane + 3 : lane;
  }
}

template <class T>
class Shuffles : public Emulated {};
using Types = ::testing::Types<int, unsigned, long long, unsigned long long, float, double>;
TYPED_TEST_SUITE(Shuffles, Types);

TYPED_TEST(Shuffles, ReadTheLaneTheyName) {
  using T = TypeParam;
  constexpr unsigned kThreads = 96;
  T* const out = device_array<T>(5 * kThreads);
  MEZZO_OK(launch({1, kThreads}, all_shuffles<T>, out));
  const auto seen = to_host(out, 5 * kThreads);
  for (unsigned form = 0; form < 5; ++form) {
    for (unsigned t = 0; t < kThreads; ++t) {
      const unsigned source = t / 32 * 32 + expected_source(form, t % 32);
      EXPECT_EQ(seen[form * kThreads + t], static_cast<T>(source) * static_cast<T>(1000003))
          << "form " << form << ", thread " << t;
    }
  }
}

__global__ void xor_beyond_segment(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(kAll, static_cast<int>(threadIdx.x), 8, 8);
}

TEST_F(Warp, XorReadsEarlierSegmentsOnly) {
  int* const out = device_array<int>(32);
  MEZZO_OK(launch({1, 32}, xor_beyond_segment, out));
  const auto seen = to_host(out, 32);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(seen[static_cast<std::size_t>(t)], (t & 8) != 0 ? t - 8 : t);
  }
}

/// Both halves of a branch shuffle among themselves, in an order of their own.
__global__ void partial_masks(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (t % 2 == 0) {
    int sum = t;
    for (int step = 2; step < 32; step *= 2) sum += __shfl_xor_sync(0x55555555U, sum, step);
    out[t] = sum;
  } else {
    out[t] = __shfl_sync(0xaaaaaaaaU, t, 31);
  }
}

TEST_F(Warp, PartialMasks) {
  int* const out = device_array<int>(32);
  MEZZO_OK(launch({1, 32}, partial_masks, out));
  const auto seen = to_host(out, 32);
  for (std::size_t t = 0; t < 32; ++t) EXPECT_EQ(seen[t], t % 2 == 0 ? 240 : 31) << t;
}

__global__ void votes(unsigned* out) {
  const unsigned t = threadIdx.x;
  const bool first = t < 32;
  const unsigned ballot = __ballot_sync(kAll, t % 3 == 0 ? 7 : 0);
  const int any = __any_sync(kAll, first && t == 9), all = __all_sync(kAll, first || t != 40);
  unsigned low = 0;
  if (t % 32 < 4) low = __ballot_sync(0xfU, t % 32 != 2) + (__all_sync(0xfU, 1) != 0 ? 100U : 0U);
  out[t] = ballot;
  out[64 + t] = static_cast<unsigned>(any * 10 + all);
  out[128 + t] = low;
}

TEST_F(Warp, Votes) {
  unsigned* const out = device_array<unsigned>(192);
  MEZZO_OK(launch({1, 64}, votes, out));
  const auto seen = to_host(out, 192);
  unsigned ballots[2] = {0, 0};
  for (unsigned t = 0; t < 64; ++t) {
    if (t % 3 == 0) ballots[t / 32] |= 1U << t % 32;
  }
  for (unsigned t = 0; t < 64; ++t) {
    EXPECT_EQ(seen[t], ballots[t / 32]);
    EXPECT_EQ(seen[64 + t], t < 32 ? 11U : 0U);
    EXPECT_EQ(seen[128 + t], t % 32 < 4 ? 111U : 0U);  // 1011 in binary, and 100
  }
}

__global__ void lane_returns() {
  if (threadIdx.x == 7) return;
  __syncwarp();
}
__global__ void whole_mask() { (void)__ballot_sync(kAll, 1); }
__global__ void mask_without_self() { (void)__ballot_sync(0x1U, 1); }
__global__ void reads_outside_mask() {
  if (threadIdx.x < 4) (void)__shfl_sync(0xfU, 1, 9);
}
__global__ void other_function() {
  if (threadIdx.x < 16) {
    (void)__any_sync(kAll, 1);
  } else {
    (void)__all_sync(kAll, 1);
  }
}
__global__ void lane_at_barrier() {
  if (threadIdx.x == 3) __syncthreads();
  (void)__shfl_down_sync(kAll, 1.0F, 1U);
}

TEST_F(WarpDeathTest, LanesThatDoNotComeAreNamed) {
  EXPECT_DEATH(run({1, 32}, lane_returns),
               "lane_returns.*__syncwarp at .*names lane 7, but that lane has returned");
  EXPECT_DEATH(run({1, 20}, whole_mask), "whole_mask.*names lane 20, but the block has only 20 threads");
  EXPECT_DEATH(run({1, 32}, mask_without_self), "thread .1, 0, 0.*does not name its own lane 1");
  EXPECT_DEATH(run({1, 32}, reads_outside_mask), "reads lane 9, which its mask 0x0000000f does not name");
  EXPECT_DEATH(run({1, 32}, other_function), "__any_sync.*names lane 16, but that lane waits in __all_sync");
  EXPECT_DEATH(run({1, 32}, lane_at_barrier),
               "__shfl_down_sync.*lane 3, but that lane waits at __syncthreads");
}

}  // namespace
}  // namespace emulated_test
