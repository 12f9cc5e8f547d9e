// Products of small matrices of 16-bit elements by a GPU's matrix units (tensor cores). Where there are none,
// before sm_80 and on the emulated device, the lanes of the warp exchange their elements and do the same by
// multiplications and additions: the fragments are the same, so what that finds wrong in their use is wrong
// on a GPU too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/convert.h"
#include "mezzo/kernels/math/cast_math.h"

namespace mezzo::kernels::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MEZZO_MATRIX_UNIT true
#else
#define MEZZO_MATRIX_UNIT false
#endif

/// C += A B in a warp, A [16, 16] and B [16, 8] of S, C [16, 8] of f32 (PTX: mma.m16n8k16). With g = lane / 4
/// and t = lane % 4 a lane has of
///   A: a[i + 2 h] = the pair of row g + 8 i, columns 8 h + 2 t and the next;
///   B: b[h] = the pair of rows 8 h + 2 t and the next, column g;
///   C: c0[j] and c1[j] = rows g and g + 8, column 2 t + j.
/// The sum over k may as well take its terms in another order, which is that of A's columns and B's rows.
/// All 32 lanes take part.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void multiply_add_16x8(float* c0, float* c1, const std::uint32_t (&a)[4],
                                                      const std::uint32_t (&b)[2]) {
#if MEZZO_MATRIX_UNIT
  if constexpr (std::is_same_v<S, Half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0[0]), "+f"(c0[1]), "+f"(c1[0]), "+f"(c1[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0[0]), "+f"(c0[1]), "+f"(c1[0]), "+f"(c1[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#else
  const auto number = [](std::uint32_t pair, int k) {
    return cast<float>(S::from_bits(static_cast<std::uint16_t>(pair >> 16 * k)));
  };
  // Two words at a time.
  const auto fetch = [](std::uint32_t first, std::uint32_t second, int lane, std::uint32_t* words) {
    const auto both = __shfl_sync(kWholeWarp, first | static_cast<unsigned long long>(second) << 32, lane);
    words[0] = static_cast<std::uint32_t>(both);
    words[1] = static_cast<std::uint32_t>(both >> 32);
  };
  const int lane = static_cast<int>(threadIdx.x % kWarp), row = lane / 4 * 4, column = lane % 4 * 2;
  std::uint32_t of_a[4][4], of_b[4][2][2];
  for (int t = 0; t < 4; ++t) {
    for (int h = 0; h < 2; ++h) fetch(a[2 * h], a[1 + 2 * h], row + t, of_a[t] + 2 * h);
    for (int j = 0; j < 2; ++j) fetch(b[0], b[1], (column + j) * 4 + t, of_b[t][j]);
  }
  for (int h = 0; h < 2; ++h) {
    for (int t = 0; t < 4; ++t) {
      for (int k = 0; k < 2; ++k) {
        for (int j = 0; j < 2; ++j) {
          c0[j] += number(of_a[t][2 * h], k) * number(of_b[t][j][h], k);
          c1[j] += number(of_a[t][1 + 2 * h], k) * number(of_b[t][j][h], k);
        }
      }
    }
  }
#endif
}

}  // namespace mezzo::kernels::cuda
