// How parameters begin: in-place fillings with the distributions of the literature. Not recorded, so they may
// be used on parameters at any time. Names and defaults are those of torch.nn.init.
#pragma once

#include <cstdint>

#include "mezzo/ops/random.h"

namespace mezzo::nn::init {

// Common to all: x is written in place and returned. Where random numbers are drawn it must be floating
// (DTypeError).

/// Every element uniform in [low, high), or normal with mean and standard deviation (ops/random.h).
using mezzo::normal_;
using mezzo::uniform_;

/// Every element `value`, 0 or 1.
const Tensor& constant_(const Tensor& x, double value);
const Tensor& zeros_(const Tensor& x);
const Tensor& ones_(const Tensor& x);

/// Terms that a weight of shape [out, in, k...] sums over in forward (in k...) and in backward (out k...).
struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
/// The fans of a weight. Throws: ShapeError for fewer than two dims, and for a shape that no tensor can have.
[[nodiscard]] Fans fans(const Shape& shape);

/// The function that follows the weight.
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The factor on the standard deviation that keeps the variance through the function: 1 (linear, sigmoid),
/// 5/3 (tanh), sqrt 2 (relu), sqrt(2 / (1 + a^2)) (leaky_relu of negative slope a), 3/4 (selu).
[[nodiscard]] double calculate_gain(Nonlinearity nonlinearity, double a = 0.01);

/// Uniform in [-b, b) with b = gain sqrt(6 / (fan in + fan out)), or normal with standard deviation gain
/// sqrt(2 / (fan in + fan out)). Throws: as `fans`. Source: Glorot and Bengio, "Understanding the difficulty
/// of training deep feedforward neural networks", AISTATS 2010.
const Tensor& xavier_uniform_(const Tensor& x, double gain = 1, Generator& generator = default_generator());
const Tensor& xavier_normal_(const Tensor& x, double gain = 1, Generator& generator = default_generator());

/// Which fan kaiming_* divides by: fan_in keeps the variance in forward, fan_out in backward.
enum class FanMode : std::uint8_t { fan_in, fan_out };

/// Options of kaiming_uniform_ and kaiming_normal_.
struct KaimingOptions {
  double a = 0;  ///< negative slope of leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/// Uniform in [-b, b) with b = sqrt(3) s, or normal with standard deviation s, where s = gain / sqrt(fan) and
/// gain = calculate_gain(nonlinearity, a). Throws: as `fans`. Source: He, Zhang, Ren, Sun, "Delving deep into
/// rectifiers", ICCV 2015.
const Tensor& kaiming_uniform_(const Tensor& x, const KaimingOptions& options = {},
                               Generator& generator = default_generator());
const Tensor& kaiming_normal_(const Tensor& x, const KaimingOptions& options = {},
                              Generator& generator = default_generator());

/// Options of trunc_normal_; low and high are values, not multiples of std.
struct TruncNormalOptions {
  double mean = 0;
  double std = 1;
  double low = -2;
  double high = 2;
};
/// Normal numbers given that they lie in [low, high], however far that is from the mean. Drawn on the CPU by
/// inversion in f64 (one uniform number per element; quantile within 1e-15 relative), rounded once to x's
/// dtype, clamped to [low, high] before. Throws: ValueError unless std > 0 and low < high. Quantile: Wichura,
/// "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988),
/// PPND16.
const Tensor& trunc_normal_(const Tensor& x, const TruncNormalOptions& options = {},
                            Generator& generator = default_generator());

}  // namespace mezzo::nn::init
