// Elementary functions of real numbers, rounding, tests for inf and NaN, and functions of three operands.
// The contract is that of pointwise.h; a header of its own, since few other families need these.
#pragma once

#include "mezzo/ops/pointwise.h"

namespace mezzo {

// --- circular and hyperbolic functions (pointwise/trigonometry.cu), angles in radians; errors in
// kernels/math/elementary_math.h

[[nodiscard]] Tensor sin(const Tensor& x);
[[nodiscard]] Tensor cos(const Tensor& x);
/// Runs in f32 under autocast.
[[nodiscard]] Tensor tan(const Tensor& x);
/// Inverse of sin, in [-pi/2, pi/2]; NaN outside of [-1, 1]. Gradient inf at +-1. Runs in f32 under autocast.
[[nodiscard]] Tensor asin(const Tensor& x);
/// Inverse of cos, in [0, pi]; NaN outside of [-1, 1]. Gradient -inf at +-1. Runs in f32 under autocast.
[[nodiscard]] Tensor acos(const Tensor& x);
/// Inverse of tan, in [-pi/2, pi/2].
[[nodiscard]] Tensor atan(const Tensor& x);
/// Angle of the point (b, a), in [-pi, pi], with the special cases of C's atan2. Gradient NaN at the origin.
/// Integers give f32. Runs in the widest dtype of both under autocast.
[[nodiscard]] Tensor atan2(const Tensor& a, const Tensor& b);
/// (e^x - e^-x) / 2. Runs in f32 under autocast.
[[nodiscard]] Tensor sinh(const Tensor& x);
/// (e^x + e^-x) / 2. Runs in f32 under autocast.
[[nodiscard]] Tensor cosh(const Tensor& x);

// --- exponentials and logarithms (pointwise/exponential.cu)

/// e^x - 1, accurate near 0. Runs in f32 under autocast.
[[nodiscard]] Tensor expm1(const Tensor& x);
/// log(1 + x), accurate near 0: -inf at -1, NaN below. Runs in f32 under autocast.
[[nodiscard]] Tensor log1p(const Tensor& x);
/// Logarithms to base 2 and 10: -inf at 0, NaN below. Run in f32 under autocast.
[[nodiscard]] Tensor log2(const Tensor& x);
[[nodiscard]] Tensor log10(const Tensor& x);
/// log(e^a + e^b), broadcast, without overflow. Throws: DTypeError for two integers.
[[nodiscard]] Tensor logaddexp(const Tensor& a, const Tensor& b);
/// The error function.
[[nodiscard]] Tensor erf(const Tensor& x);
/// Inverse of erf: +-inf at +-1, NaN beyond. Runs in f32 under autocast.
[[nodiscard]] Tensor erfinv(const Tensor& x);

// --- the gamma function (pointwise/gamma.cu); errors in kernels/math/gamma_math.h

/// log |gamma(x)|: inf at 0, -1, -2, .. and at -inf.
[[nodiscard]] Tensor lgamma(const Tensor& x);
/// The derivative of lgamma: NaN at -1, -2, .. and at -inf, -inf at 0, inf at -0.
[[nodiscard]] Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma: at 0, -1, -2, .. inf for odd n, -inf for even n (torch has numbers near
/// 1e33 at -1, -2, .. for n = 1). Throws: ValueError for a negative n. Source: torch.polygamma.
[[nodiscard]] Tensor polygamma(std::int64_t n, const Tensor& x);

// --- rounding (pointwise/rounding.cu): results keep the dtype, integers stay as they are, bools are refused
// (DTypeError), gradients are 0

/// Up, down, towards zero.
[[nodiscard]] Tensor ceil(const Tensor& x);
[[nodiscard]] Tensor floor(const Tensor& x);
[[nodiscard]] Tensor trunc(const Tensor& x);
/// To the nearest multiple of 10^-decimals, ties to even. x must be floating unless decimals is 0
/// (DTypeError).
[[nodiscard]] Tensor round(const Tensor& x, std::int64_t decimals = 0);
/// a - b floor(a / b): Python's a % b, with the sign of b. NaN for a real b = 0; an integer a divided by 0
/// leaves a (PyTorch throws on the CPU). Throws: DTypeError for bools. The gradient of b is -floor(a / b).
[[nodiscard]] Tensor remainder(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor remainder(const Tensor& x, Scalar s);
[[nodiscard]] inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
[[nodiscard]] inline Tensor operator%(const Tensor& x, Scalar s) { return remainder(x, s); }
/// a - b trunc(a / b): C's fmod, with the sign of a; otherwise as remainder. The gradient of b is
/// -trunc(a / b).
[[nodiscard]] Tensor fmod(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor fmod(const Tensor& x, Scalar s);

// --- inf and NaN (pointwise/rounding.cu)

/// Bool tensors; integers and bools are finite. Dtypes: any, float8 too.
[[nodiscard]] Tensor isnan(const Tensor& x);
[[nodiscard]] Tensor isinf(const Tensor& x);
[[nodiscard]] Tensor isfinite(const Tensor& x);
/// x with NaN, inf and -inf replaced; infinities become the largest finite numbers of x's dtype unless told.
/// Gradient 0 where a value was replaced. Integers and bools are copied.
[[nodiscard]] Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                                std::optional<double> neginf = {});

// --- three operands (pointwise/ternary.cu)

/// x + value * a * b. An integer result takes an integer value; bools are refused (DTypeError). Runs in the
/// widest dtype of all under autocast.
[[nodiscard]] Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value * (a / b). One of a and b must be floating (DTypeError). Runs in the widest dtype of all under
/// autocast.
[[nodiscard]] Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// a + weight (b - a); exactly b for weight 1. All must be floating (DTypeError).
[[nodiscard]] Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
[[nodiscard]] Tensor lerp(const Tensor& a, const Tensor& b, double weight);
/// x with `value` where the mask is set, in x's dtype. The mask must be bool, and a value for integers no
/// real number (DTypeError). A tensor as value is 0-dim (ShapeError) and gets the gradient of what it fills.
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

}  // namespace mezzo
