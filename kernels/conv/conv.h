// The three bilinear maps of which every convolution, transposed convolution and gradient of either consists,
// on the device at hand. They are closed under differentiation: the gradients of each are the other two. With
// p(t, k) = t * stride - padding + k * dilation and sums over the input channels c of o's group:
//
//   forward          y[n, o, t] = bias[o] + sum over c, k of x[n, c, p(t, k)] w[o, c, k]
//   input gradient   x[n, c, p] = bias[c] + sum over o and all t, k with p(t, k) = p of y[n, o, t] w[o, c, k]
//   weight gradient  w[o, c, k] = sum over n, t of y[n, o, t] x[n, c, p(t, k)]
//
// Places outside of x count as 0. The input gradient is what a transposed convolution computes. On the CPU
// columns and oneDNN's channels-last primitives multiply these zeros, so an infinite weight there gives NaN.
//
// Arrays. All are 5-dim views, missing spatial dims in front with size 1: x [N, C, i0, i1, i2] and y [N, O,
// o0, o1, o2] are dense and both row-major or both channels-last (N, spatial, C); the weight [O, C / groups,
// k0, k1, k2] is dense and row-major. A bias is contiguous and of the dtype of the result. Floating dtypes in
// any mix: computed in f64 when one is f64, else in f32, and rounded once when stored (a 16-bit result by
// cuDNN perhaps before its bias is added, too). No array is empty. The result is written without being read.
// |error| as for a product of as many terms (kernels/gemm/gemm.h). On the CPU the bits do not depend on the
// number of threads.
//
// On the CPU larger 3 x 3 convolutions of stride 1 go by Winograd's F(4 x 4, 3 x 3) while allow_winograd()
// holds (cpu_winograd.h). Then |error| <= 16 * 2^-24 * the sum of the terms' sizes, where each number of x
// and y counts as much as the largest within five places of it along both dims, and each weight as the
// largest of its 3 x 3.
#pragma once

#include <atomic>
#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/pool/windows.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Sizes of a convolution. `groups` divides both numbers of channels, which are those of all groups together.
struct ConvShape {
  std::int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  bool channels_last = false;  ///< order of x and y
  Windows windows = {};
};

/// Whether the CPU may compute convolutions by Winograd's products (ops/convolution.h).
inline constinit std::atomic<bool> winograd_is_allowed{true};
[[nodiscard]] inline bool allow_winograd() noexcept {
  return winograd_is_allowed.load(std::memory_order_relaxed);
}

/// Which of the three maps.
enum class ConvMap { forward, input_gradient, weight_gradient };

MEZZO_KERNEL(conv_forward, void(const ConvShape& shape, const View& y, const View& x, const View& weight,
                                const void* bias));
MEZZO_KERNEL(conv_input_gradient, void(const ConvShape& shape, const View& x, const View& y,
                                       const View& weight, const void* bias));
MEZZO_KERNEL(conv_weight_gradient,
             void(const ConvShape& shape, const View& weight, const View& x, const View& y));

}  // namespace mezzo::kernels
