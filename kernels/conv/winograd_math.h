// Winograd's transforms F(4, 3) and F(3, 4) of one dim, for numbers or vectors of them. Six inputs d and
// three weights g make four outputs by six products instead of twelve,
//
//   y = Output((Weight(g)) * (Input(d)))        y[i] = sum over k of d[i + k] g[k]
//
// and so do six inputs and the gradients of four outputs for the gradients of three weights. A tile of two
// dims is transformed column by column, then row by row. The points are 0, +-5/8, +-3/2 and infinity: with
// the usual +-1 and +-2 the errors are four times as large.
//
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#pragma once

#include "mezzo/core/host_device.h"

namespace mezzo::kernels::cpu::winograd {

/// Numbers of a tile along one dim: what is read, the outputs, and the kernel.
inline constexpr int kInputs = 6, kOutputs = 4, kKernel = 3;

inline constexpr float kA = 0.625F, kB = 1.5F;  // points +-kA and +-kB; their powers here are exact
inline constexpr float kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;
inline constexpr float kSum = kA2 + kB2, kProduct = kA2 * kB2;
/// 1 / the product of a point's differences to the other points: of 0, of +-kA and of +-kB.
inline constexpr auto kAtZero = static_cast<float>(1.0 / (double{kA2} * kB2));
inline constexpr auto kAtA = static_cast<float>(1.0 / (2 * double{kA2} * (double{kA2} - kB2)));
inline constexpr auto kAtB = static_cast<float>(1.0 / (2 * double{kB2} * (double{kB2} - kA2)));

struct Input {
  static constexpr int kFrom = kInputs, kTo = kInputs;
  template <class V>
  MEZZO_ALWAYS_INLINE static void run(const V (&d)[kFrom], V (&v)[kTo]) {
    const V even_a = d[4] - d[2] * kB2, odd_a = (d[3] - d[1] * kB2) * kA;
    const V even_b = d[4] - d[2] * kA2, odd_b = (d[3] - d[1] * kA2) * kB;
    v[0] = d[4] - d[2] * kSum + d[0] * kProduct;
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
    v[5] = d[5] - d[3] * kSum + d[1] * kProduct;
  }
};

/// The polynomial of up to four numbers at the six points.
template <int kCount>
struct Evaluated {
  static constexpr int kFrom = kCount, kTo = kInputs;
  template <class V>
  MEZZO_ALWAYS_INLINE static void run(const V (&g)[kFrom], V (&u)[kTo]) {
    const V even_a = (g[0] + g[2] * kA2) * kAtA, even_b = (g[0] + g[2] * kB2) * kAtB;
    V odd_a = g[1] * kA, odd_b = g[1] * kB;
    if constexpr (kCount == 4) odd_a += g[3] * kA3, odd_b += g[3] * kB3;
    odd_a *= kAtA, odd_b *= kAtB;
    u[0] = g[0] * kAtZero;
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g[kCount - 1];
  }
};
using Weight = Evaluated<kKernel>;
using OutputGradient = Evaluated<kOutputs>;

/// From the products at the six points back to numbers: outputs, or gradients of weights.
template <int kCount>
struct Interpolated {
  static constexpr int kFrom = kInputs, kTo = kCount;
  template <class V>
  MEZZO_ALWAYS_INLINE static void run(const V (&m)[kFrom], V (&y)[kTo]) {
    const V sum_a = m[1] + m[2], sum_b = m[3] + m[4], odd_a = m[1] - m[2], odd_b = m[3] - m[4];
    y[0] = m[0] + sum_a + sum_b;
    y[1] = odd_a * kA + odd_b * kB;
    y[2] = sum_a * kA2 + sum_b * kB2;
    if constexpr (kCount == 4) y[3] = odd_a * kA3 + odd_b * kB3;
    y[kCount - 1] += m[5];
  }
};
using Output = Interpolated<kOutputs>;
using WeightGradient = Interpolated<kKernel>;

}  // namespace mezzo::kernels::cpu::winograd
