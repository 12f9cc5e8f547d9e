// Atomic functions and bit casts of the emulated device.
#include <algorithm>
#include <limits>

#include "emulated/support.h"

namespace emulated_test {
namespace {

using Atomics = Emulated;

template <class T>
__global__ void add_all(T* sum, T* olds) {
  olds[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(sum, static_cast<T>(threadIdx.x + 1));
}

template <class T>
class AtomicAdd : public Emulated {};
using Types = ::testing::Types<int, unsigned, unsigned long long, float, double>;
TYPED_TEST_SUITE(AtomicAdd, Types);

TYPED_TEST(AtomicAdd, AddsAndReturnsTheOldValue) {
  using T = TypeParam;
  T* const sum = to_device<T>({T{0}});
  T* const olds = device_array<T>(100);
  MEZZO_OK(launch({2, 50}, add_all<T>, sum, olds));
  EXPECT_EQ(to_host(sum, 1)[0], static_cast<T>(2550));
  // The old values are the partial sums of 1..50 twice, in some order: all different, the smallest is 0.
  auto seen = to_host(olds, 100);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen.front(), T{0});
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

__global__ void other_operations(unsigned* u, int* i, unsigned long long* l, float* f) {
  const unsigned t = threadIdx.x;
  atomicOr(&u[0], 1U << t);
  atomicMax(&u[1], t * 7 % 32);
  atomicMin(&u[2], 40 + t);
  atomicCAS(&u[3], t, t + 1);  // counts up, if threads come in order or not: never beyond 32
  if (t == 4) u[4] = atomicExch(&u[5], 9U);
  atomicMax(&i[0], -static_cast<int>(t) - 1);
  atomicMin(&i[1], -static_cast<int>(t));
  i[2 + t] = atomicCAS(&i[40], 0, static_cast<int>(t) + 1);
  atomicOr(l, 1ULL << (t + 32));
  if (t == 0) f[1] = atomicExch(&f[0], 2.5F);
}

TEST_F(Atomics, OtherOperations) {
  unsigned* const u = to_device<unsigned>({0, 0, 100, 0, 0, 7});
  std::vector<int> start(41);
  start[0] = -1000;
  int* const i = to_device(start);
  auto* const l = to_device<unsigned long long>({1});
  float* const f = to_device<float>({1.5F, 0});
  MEZZO_OK(launch({1, 32}, other_operations, u, i, l, f));
  EXPECT_EQ(to_host(u, 3), (std::vector<unsigned>{0xffffffffU, 31, 40}));
  EXPECT_LE(to_host(u, 4)[3], 32U);
  EXPECT_EQ(to_host(u + 4, 2), (std::vector<unsigned>{7, 9}));
  const auto ints = to_host(i, 41);
  EXPECT_EQ(ints[0], -1);
  EXPECT_EQ(ints[1], -31);
  EXPECT_EQ(std::count(ints.begin() + 2, ints.begin() + 34, 0), 1);  // one thread found 0 and exchanged
  EXPECT_GE(ints[40], 1);
  EXPECT_EQ(to_host(l, 1)[0], 0xffffffff00000001ULL);
  EXPECT_EQ(to_host(f, 2), (std::vector<float>{2.5F, 1.5F}));
}

__global__ void wrap(int* value) { atomicAdd(value, 1); }

TEST_F(Atomics, IntegersWrapAround) {
  int* const value = to_device<int>({std::numeric_limits<int>::max()});
  MEZZO_OK(launch({1, 1}, wrap, value));
  EXPECT_EQ(to_host(value, 1)[0], std::numeric_limits<int>::min());
}

__global__ void casts(unsigned* out, const float* in) {
  out[0] = __float_as_uint(__ldg(in));
  out[1] = __float_as_uint(__uint_as_float(0x7fc00001U));
  out[2] = static_cast<unsigned>(__float_as_int(__ldcs(in + 1)));
  __stcs(out + 3, static_cast<unsigned>(__double_as_longlong(-2.0) >> 32));
}

TEST_F(Atomics, BitCastsKeepBits) {
  unsigned* const out = device_array<unsigned>(4);
  MEZZO_OK(launch({1, 1}, casts, out, to_device<float>({1.0F, -2.0F})));
  EXPECT_EQ(to_host(out, 4), (std::vector<unsigned>{0x3f800000U, 0x7fc00001U, 0xc0000000U, 0xc0000000U}));
}

}  // namespace
}  // namespace emulated_test
