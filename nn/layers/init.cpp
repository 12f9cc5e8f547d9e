// Fans, gains and the fillings made of them. trunc_normal_ draws on the CPU in f64, by the inverse of the
// normal distribution (Wichura's algorithm AS 241), and copies the result to the tensor's device.
#include "mezzo/nn/init.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/cast.h"

namespace mezzo::nn::init {

namespace {

using Coefficients = std::array<double, 8>;

/// The rational functions of AS 241, constant term first: near the centre, in the tails, far out.
constexpr Coefficients kCentreTop{
    3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
    4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr Coefficients kCentreBottom{
    1.00000000000000000000e0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
    2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3};
constexpr Coefficients kTailTop{1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailBottom{1.00000000000000000000e0,  2.05319162663775882187e0,
                                   1.67638483018380384940e0,  6.89767334985100004550e-1,
                                   1.48103976427480074590e-1, 1.51986665636164571966e-2,
                                   5.47593808499534494600e-4, 1.05075007164441684324e-9};
constexpr Coefficients kFarTop{6.65790464350110377720e0,  5.46378491116411436990e0,
                               1.78482653991729133580e0,  2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kFarBottom{1.00000000000000000000e0,  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1, 1.48753612908506148525e-2,
                                  7.86869131145613259100e-4, 1.84631831751005468180e-5,
                                  1.42151175831644588870e-7, 2.04426310338993978564e-15};

double ratio(const Coefficients& top, const Coefficients& bottom, double x) {
  double above = 0, below = 0;
  for (std::size_t i = top.size(); i-- > 0;) {
    above = above * x + top[i];
    below = below * x + bottom[i];
  }
  return above / below;
}

/// The z for which a standard normal number is below z with probability p, 0 < p < 1.
double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) return q * ratio(kCentreTop, kCentreBottom, 0.180625 - q * q);
  const double r = std::sqrt(-std::log(std::min(p, 1 - p)));
  const double z = r <= 5 ? ratio(kTailTop, kTailBottom, r - 1.6) : ratio(kFarTop, kFarBottom, r - 5);
  return q < 0 ? -z : z;
}

/// Probability that a standard normal number is below z.
double normal_cdf(double z) { return 0.5 * std::erfc(-z * std::sqrt(0.5)); }

/// gain / sqrt(fan); 0 where the fan is 0, since there is no element then.
double kaiming_std(const Tensor& x, const KaimingOptions& options) {
  const Fans fan = fans(x.shape());
  const std::int64_t count = options.mode == FanMode::fan_in ? fan.in : fan.out;
  if (count == 0) return 0;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(count));
}

/// variance * 2 / (fan in + fan out) as a standard deviation; 0 where there is no element.
double xavier_std(const Tensor& x, double gain) {
  const Fans fan = fans(x.shape());
  if (fan.in + fan.out == 0) return 0;
  return gain * std::sqrt(2 / static_cast<double>(fan.in + fan.out));
}

/// Uniform with mean 0 and this standard deviation.
const Tensor& uniform_of_std(const Tensor& x, double std, Generator& generator) {
  const double bound = std::sqrt(3.0) * std;
  return uniform_(x, -bound, bound, generator);
}

}  // namespace

const Tensor& constant_(const Tensor& x, double value) {
  const NoGrad no_grad;
  return x.fill_(value);
}

const Tensor& zeros_(const Tensor& x) { return constant_(x, 0); }
const Tensor& ones_(const Tensor& x) { return constant_(x, 1); }

Fans fans(const Shape& shape) {
  if (shape.size() < 2) {
    throw ShapeError("init", "a weight of at least 2 dims", to_string(shape),
                     "initialise biases with zeros_ or uniform_");
  }
  static_cast<void>(layout::checked_numel("init", shape));
  std::int64_t window = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) window *= shape[d];
  return {shape[1] * window, shape[0] * window};
}

double calculate_gain(Nonlinearity nonlinearity, double a) {
  if (nonlinearity == Nonlinearity::tanh) return 5.0 / 3;
  if (nonlinearity == Nonlinearity::relu) return std::sqrt(2.0);
  if (nonlinearity == Nonlinearity::leaky_relu) return std::sqrt(2 / (1 + a * a));
  return nonlinearity == Nonlinearity::selu ? 0.75 : 1;
}

const Tensor& xavier_uniform_(const Tensor& x, double gain, Generator& generator) {
  return uniform_of_std(x, xavier_std(x, gain), generator);
}

const Tensor& xavier_normal_(const Tensor& x, double gain, Generator& generator) {
  return normal_(x, 0, xavier_std(x, gain), generator);
}

const Tensor& kaiming_uniform_(const Tensor& x, const KaimingOptions& options, Generator& generator) {
  return uniform_of_std(x, kaiming_std(x, options), generator);
}

const Tensor& kaiming_normal_(const Tensor& x, const KaimingOptions& options, Generator& generator) {
  return normal_(x, 0, kaiming_std(x, options), generator);
}

const Tensor& trunc_normal_(const Tensor& x, const TruncNormalOptions& options, Generator& generator) {
  const auto [mean, std, low, high] = options;
  if (!(std > 0) || !(low < high)) {
    throw ValueError(
        "trunc_normal_", "std > 0 and low < high",
        "std " + std::to_string(std) + ", [" + std::to_string(low) + ", " + std::to_string(high) + "]",
        "low and high are values, not multiples of std");
  }
  if (!is_floating(x.dtype()))
    throw DTypeError("trunc_normal_", "a floating tensor", to_string(x.dtype()), "use f32");
  const NoGrad no_grad;
  // Probabilities near 1 have no digits left, so an interval above the mean is mirrored to where they are
  // near 0.
  const double sign = low > mean ? -1 : 1;
  const double from = normal_cdf((sign > 0 ? low - mean : mean - high) / std);
  const double until = normal_cdf((sign > 0 ? high - mean : mean - low) / std);
  const Tensor draws = rand(x.shape(), {.dtype = DType::f64}, generator);
  for (double& draw : draws.mutable_data<double>()) {
    const double p = std::max(from + draw * (until - from), 0x1p-1022);
    draw = std::clamp(mean + sign * std * normal_quantile(p), low, high);
  }
  return x.copy_(to(to(draws, x.dtype()), x.device()));
}

}  // namespace mezzo::nn::init
