// Products of small matrices of 16-bit elements in a warp: f16 by the matrix units (tensor cores) of compute
// capability 7.5 and above, bf16 by the matrix units of 8.0 and above. GPUs without them multiply in f32,
// where products of 16-bit numbers are exact. The emulated device multiplies the same fragments by plain
// loops, so what that finds wrong in their use is wrong on a GPU too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "mezzo/core/float16.h"
#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/convert.h"
#include "mezzo/kernels/cuda/rows.h"
#include "mezzo/kernels/cuda/shared.h"
#include "mezzo/kernels/math/float_parts.h"

namespace mezzo::kernels::cuda {

/// The compute capability that this is compiled for, times ten: 0 for the host, and for the emulated device,
/// which has one at run time.
#if defined(__CUDA_ARCH__)
#define MEZZO_CAPABILITY (__CUDA_ARCH__ / 10)
#else
#define MEZZO_CAPABILITY 0
#endif

/// multiply_add_16x8 where the matrix units do not know S: a lane asks the lanes of its rows and columns for
/// their pairs. Terms are added one by one, by rising k.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void multiply_add_by_lanes(float* c0, float* c1, const std::uint32_t (&a)[4],
                                                          const std::uint32_t (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const auto add_pair = [](float& sum, std::uint32_t left, std::uint32_t right) {
    float first, second, other_first, other_second;
    widen_pair<S>(left, first, second);
    widen_pair<S>(right, other_first, other_second);
    using math::detail::add_product;
    sum = add_product(add_product(sum, first, other_first), second, other_second);
  };
  MEZZO_KEEP_DEVICE_LOOP
  for (int pair = 0; pair < 8; ++pair) {  // columns 2 pair and 2 pair + 1 of A
    const bool high = pair >= 4;
    const int across = pair % 4, row = lane / 4 * 4 + across, column = lane % 4 * 8 + across;
    const std::uint32_t upper = __shfl_sync(kWholeWarp, high ? a[2] : a[0], row),
                        lower = __shfl_sync(kWholeWarp, high ? a[3] : a[1], row),
                        left = __shfl_sync(kWholeWarp, high ? b[1] : b[0], column),
                        right = __shfl_sync(kWholeWarp, high ? b[1] : b[0], column + 4);
    add_pair(c0[0], upper, left);
    add_pair(c0[1], upper, right);
    add_pair(c1[0], lower, left);
    add_pair(c1[1], lower, right);
  }
}

/// C += A B in a warp, A [16, 16] and B [16, 8] of S, C [16, 8] of f32 (PTX: mma.m16n8k16, or m16n8k8 twice).
/// With g = lane / 4 and t = lane % 4 a lane has of
///   A: a[i + 2 h] = the pair of row g + 8 i, columns 8 h + 2 t and the next;
///   B: b[h] = the pair of rows 8 h + 2 t and the next, column g;
///   C: c0[j] and c1[j] = rows g and g + 8, column 2 t + j.
/// The sum over k may as well take its terms in another order, if A's columns and B's rows have the same. All
/// 32 lanes take part.
template <class S>
__device__ MEZZO_ALWAYS_INLINE void multiply_add_16x8(float* c0, float* c1, const std::uint32_t (&a)[4],
                                                      const std::uint32_t (&b)[2]) {
#if defined(MEZZO_CUDA_EMULATED)
  using emulated_cuda::HalfType;
  constexpr HalfType kType = std::is_same_v<S, Half> ? HalfType::float16 : HalfType::bfloat16;
  const int capability = emulated_cuda::compute_capability();
  if (capability >= 80) {
    emulated_cuda::multiply_add_16x8(kType, 16, c0, c1, a, b);
  } else if (capability >= 75 && kType == HalfType::float16) {
    emulated_cuda::multiply_add_16x8(kType, 8, c0, c1, a, b);
    emulated_cuda::multiply_add_16x8(kType, 8, c0, c1, a + 2, b + 1);
  } else {
    multiply_add_by_lanes<S>(c0, c1, a, b);
  }
#elif MEZZO_CAPABILITY >= 80
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
#elif MEZZO_CAPABILITY >= 75
  if constexpr (std::is_same_v<S, Half>) {
    MEZZO_UNROLL
    for (int h = 0; h < 2; ++h) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(c0[0]), "+f"(c0[1]), "+f"(c1[0]), "+f"(c1[1])
          : "r"(a[2 * h]), "r"(a[2 * h + 1]), "r"(b[h]));
    }
  } else {
    multiply_add_by_lanes<S>(c0, c1, a, b);
  }
#else
  multiply_add_by_lanes<S>(c0, c1, a, b);
#endif
}

/// Element `i` of four, which need not be in memory for that.
[[nodiscard]] __device__ MEZZO_ALWAYS_INLINE std::uint32_t word_of(const RawWords<4>& raw, int i) {
  const std::uint32_t low = i % 2 == 0 ? raw.words[0] : raw.words[1];
  const std::uint32_t high = i % 2 == 0 ? raw.words[2] : raw.words[3];
  return i < 2 ? low : high;
}

/// load_matrices by plain reads, with place_of(lane) = the place that a lane named.
template <bool kTransposed, class PlaceOf>
__device__ MEZZO_ALWAYS_INLINE void read_matrices(const Shared<RawWords<4>>& rows, const PlaceOf& place_of,
                                                  std::uint32_t (&words)[4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp), group = lane / 4, across = lane % 4;
  const auto row = [&](int from) { return rows.get(static_cast<std::size_t>(place_of(from))); };
  MEZZO_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (kTransposed) {
      const std::uint32_t even = word_of(row(8 * i + 2 * across), group / 2),
                          odd = word_of(row(8 * i + 2 * across + 1), group / 2);
      const int shift = group % 2 * 16;
      words[i] = (even >> shift & 0xffffU) | odd >> shift << 16;
    } else {
      words[i] = word_of(row(8 * i + group), across);
    }
  }
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory (PTX: ldmatrix, since 7.5), as multiply_add_16x8
/// takes them: lane 8 i + r names row r of matrix i by its place in `rows`. words[i] = of matrix i elements 2
/// t and 2 t + 1 of row g; transposed, of column g, with g = lane / 4 and t = lane % 4. All 32 lanes take
/// part.
template <bool kTransposed>
__device__ MEZZO_ALWAYS_INLINE void load_matrices(const Shared<RawWords<4>>& rows, int place,
                                                  std::uint32_t (&words)[4]) {
#if MEZZO_CAPABILITY >= 75
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
#if defined(MEZZO_CUDA_EMULATED)
  if (emulated_cuda::compute_capability() >= 75) {
    int places[kWarp];
    emulated_cuda::share_places(place, places);
    return read_matrices<kTransposed>(
        rows, [&](int lane) { return places[lane]; }, words);
  }
#endif
  read_matrices<kTransposed>(
      rows, [place](int lane) { return __shfl_sync(kWholeWarp, place, lane); }, words);
#endif
}

}  // namespace mezzo::kernels::cuda
