// Activations beside relu, gelu, sigmoid, tanh and silu, which stand in pointwise.h. The contract is that
// of pointwise.h, but x must be floating (DTypeError). Derivatives at kinks are PyTorch's.
#pragma once

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// x above 0, negative_slope * x below and at 0.
[[nodiscard]] Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// leaky_relu with the slope as a tensor: of one element, or one per channel, which is dim 1 of x
/// (ShapeError). Runs in the region's dtype under autocast. Source: He et al., "Delving Deep into
/// Rectifiers", arXiv:1502.01852.
[[nodiscard]] Tensor prelu(const Tensor& x, const Tensor& weight);
/// x between the bounds; gradient 0 at and beyond them. Throws: ValueError for min_val > max_val.
[[nodiscard]] Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1);
/// hardtanh(x, 0, 6).
[[nodiscard]] Tensor relu6(const Tensor& x);
/// relu6(x + 3) / 6; gradient 0 for a NaN, and at +-3.
[[nodiscard]] Tensor hardsigmoid(const Tensor& x);
/// x relu6(x + 3) / 6; the gradient at +-3 is the middle piece's. Source: Howard et al., arXiv:1905.02244.
[[nodiscard]] Tensor hardswish(const Tensor& x);
/// x moved towards 0 by lambd, 0 within it; gradient 0 at +-lambd. Throws: ValueError for lambd < 0.
[[nodiscard]] Tensor softshrink(const Tensor& x, double lambd = 0.5);
/// x, and 0 from -lambd to lambd.
[[nodiscard]] Tensor hardshrink(const Tensor& x, double lambd = 0.5);
/// x above the threshold, `value` elsewhere; gradient 0 there.
[[nodiscard]] Tensor threshold(const Tensor& x, double threshold, double value);
/// leaky_relu, while training with slopes uniform in [lower, upper), one drawn for each element, otherwise
/// with their mean. Throws: ValueError unless lower <= upper. Source: Xu et al., arXiv:1505.00853.
[[nodiscard]] Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3,
                           bool training = false, Generator& generator = default_generator());
/// x above 0, alpha (e^x - 1) below. Source: Clevert et al., arXiv:1511.07289.
[[nodiscard]] Tensor elu(const Tensor& x, double alpha = 1);
/// x above 0, alpha (e^(x / alpha) - 1) below. Throws: ValueError for alpha = 0. Source: Barron,
/// arXiv:1704.07483.
[[nodiscard]] Tensor celu(const Tensor& x, double alpha = 1);
/// 1.0507 elu(x, 1.6733). Source: Klambauer et al., arXiv:1706.02515.
[[nodiscard]] Tensor selu(const Tensor& x);

/// log(1 + e^(beta x)) / beta, and x where beta x > threshold. Throws: ValueError for beta = 0. Runs in f32
/// under autocast.
[[nodiscard]] Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// log(sigmoid(x)), without overflow.
[[nodiscard]] Tensor logsigmoid(const Tensor& x);
/// x / (1 + |x|).
[[nodiscard]] Tensor softsign(const Tensor& x);
/// x - tanh(x).
[[nodiscard]] Tensor tanhshrink(const Tensor& x);
/// x tanh(log(1 + e^x)). Source: Misra, arXiv:1908.08681.
[[nodiscard]] Tensor mish(const Tensor& x);

}  // namespace mezzo
