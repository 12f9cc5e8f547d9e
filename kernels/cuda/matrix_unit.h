// Products of small matrices of 16-bit elements by a GPU's matrix units (tensor cores, compute capability 8.0
// and above). The emulated device multiplies the same fragments by plain loops, so what that finds wrong in
// their use is wrong on a GPU too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/shared.h"

namespace mezzo::kernels::cuda {

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
#if !defined(MEZZO_CUDA_EMULATED)
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
  using emulated_cuda::HalfType;
  constexpr HalfType kType = std::is_same_v<S, Half> ? HalfType::float16 : HalfType::bfloat16;
  emulated_cuda::multiply_add_16x8(kType, c0, c1, a, b);
#endif
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory (PTX: ldmatrix), as multiply_add_16x8 takes
/// them: lane 8 i + r names row r of matrix i by its place in `rows`. words[i] = of matrix i elements 2 t and
/// 2 t + 1 of row g; transposed, of column g, with g = lane / 4 and t = lane % 4. All 32 lanes take part.
template <bool kTransposed>
__device__ MEZZO_ALWAYS_INLINE void load_matrices(const Shared<RawWords<4>>& rows, int place,
                                                  std::uint32_t (&words)[4]) {
#if !defined(MEZZO_CUDA_EMULATED)
  const unsigned address = rows.address(static_cast<std::size_t>(place));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address));
#else
  const int lane = static_cast<int>(threadIdx.x % kWarp), group = lane / 4, across = lane % 4;
  int places[kWarp];
  emulated_cuda::share_places(place, places);
  const auto row = [&](int matrix, int r) {
    return rows.get(static_cast<std::size_t>(places[8 * matrix + r]));
  };
  for (int i = 0; i < 4; ++i) {
    if (!kTransposed) {
      words[i] = row(i, group).words[across];
      continue;
    }
    const RawWords<4> even = row(i, 2 * across), odd = row(i, 2 * across + 1);
    const int shift = group % 2 * 16;
    words[i] = (even.words[group / 2] >> shift & 0xffffU) | odd.words[group / 2] >> shift << 16;
  }
#endif
}

}  // namespace mezzo::kernels::cuda
