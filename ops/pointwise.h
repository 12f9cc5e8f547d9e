// Ops that work element by element: arithmetic, comparison, logic, functions of one number, activations.
// One header for all, since every other op family is built on them.
//
// Common contract. Operands broadcast together (ShapeError where they do not) and may have any strides. The
// result is a new contiguous tensor in the promoted dtype (core/promotion.h) unless said otherwise. 16-bit
// values are computed in f32 and rounded once. Integers wrap modulo 2^bits; an operand without dims does so
// before it is ordered or divides, but comparisons take it as it is. Functions of real numbers take
// integers and bools too and give f32 for them; their error bounds are those of kernels/math/math.h. NaN
// operands give NaN results. All are differentiable to any order, except comparisons and logic.
#pragma once

#include <optional>

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// The rounding of div's quotient.
enum class RoundingMode : std::uint8_t {
  none,   ///< true division; integers give f32
  trunc,  ///< rounds towards zero, as C's integer division
  floor,  ///< rounds down, as Python's //
};
template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<RoundingMode>{"none", "trunc", "floor"};

/// Which formula gelu uses.
enum class GeluApproximation : std::uint8_t {
  none,  ///< x/2 (1 + erf(x / sqrt 2))
  tanh,  ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};
template <>
inline constexpr std::array<std::string_view, 2> kEnumNames<GeluApproximation>{"none", "tanh"};

// --- arithmetic (pointwise/binary.cu, scalar.cu, power.cu)

/// a + alpha * b. On bools: or. Throws: DTypeError when alpha is real and the result is not, or alpha is a
/// bool and the result is not.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor add(const Tensor& x, Scalar s);
/// a - alpha * b. Throws: as add does, and DTypeError for bool tensors.
[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
[[nodiscard]] Tensor sub(const Tensor& x, Scalar s);
[[nodiscard]] Tensor sub(Scalar s, const Tensor& x);
/// a * b. On bools: and.
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(const Tensor& x, Scalar s);
/// a / b, rounded as `rounding_mode` says; only `none` turns integers into f32. An integer divided by 0 gives
/// 0 (PyTorch throws on the CPU). A rounded quotient has gradient 0.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b, RoundingMode rounding_mode = RoundingMode::none);
[[nodiscard]] Tensor div(const Tensor& x, Scalar s, RoundingMode rounding_mode = RoundingMode::none);
/// s / x; runs in f32 under autocast.
[[nodiscard]] Tensor div(Scalar s, const Tensor& x);
/// The larger (smaller) of a and b; NaN when either is. Equal operands share the gradient half and half.
[[nodiscard]] Tensor maximum(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor minimum(const Tensor& a, const Tensor& b);
/// a ^ b with the special cases of C's pow, but for the numbers 0.5 and -0.5 as exponents: these are sqrt and
/// rsqrt. Integers stay integers: a negative exponent tensor truncates to 0 (or +-1 for a base of +-1), a
/// negative integer number throws ValueError. Runs in f32 under autocast. The gradient of the base is 0 where
/// the exponent is 0, the exponent's gradient 0 where the base is 0 and the exponent >= 0.
[[nodiscard]] Tensor pow(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor pow(const Tensor& x, Scalar p);
[[nodiscard]] Tensor pow(Scalar s, const Tensor& x);

[[nodiscard]] Tensor operator+(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator+(const Tensor& x, Scalar s);
[[nodiscard]] Tensor operator+(Scalar s, const Tensor& x);
[[nodiscard]] Tensor operator-(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Tensor& x, Scalar s);
[[nodiscard]] Tensor operator-(Scalar s, const Tensor& x);
[[nodiscard]] Tensor operator*(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator*(const Tensor& x, Scalar s);
[[nodiscard]] Tensor operator*(Scalar s, const Tensor& x);
[[nodiscard]] Tensor operator/(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator/(const Tensor& x, Scalar s);
[[nodiscard]] Tensor operator/(Scalar s, const Tensor& x);
[[nodiscard]] Tensor operator-(const Tensor& x);

// --- comparison, logic, choice (pointwise/compare.cu)

/// Bool tensors; operands are compared in their promoted dtype. A NaN is unequal to everything and neither
/// less nor greater.
[[nodiscard]] Tensor eq(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor eq(const Tensor& x, Scalar s);
[[nodiscard]] Tensor ne(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor ne(const Tensor& x, Scalar s);
[[nodiscard]] Tensor lt(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor lt(const Tensor& x, Scalar s);
[[nodiscard]] Tensor le(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor le(const Tensor& x, Scalar s);
[[nodiscard]] Tensor gt(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor gt(const Tensor& x, Scalar s);
[[nodiscard]] Tensor ge(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor ge(const Tensor& x, Scalar s);
// Comparisons as operators. Whether two handles name one tensor is `is_same`.
[[nodiscard]] inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
[[nodiscard]] inline Tensor operator==(const Tensor& x, Scalar s) { return eq(x, s); }
[[nodiscard]] inline Tensor operator==(Scalar s, const Tensor& x) { return eq(x, s); }
[[nodiscard]] inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
[[nodiscard]] inline Tensor operator!=(const Tensor& x, Scalar s) { return ne(x, s); }
[[nodiscard]] inline Tensor operator!=(Scalar s, const Tensor& x) { return ne(x, s); }
[[nodiscard]] inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
[[nodiscard]] inline Tensor operator<(const Tensor& x, Scalar s) { return lt(x, s); }
[[nodiscard]] inline Tensor operator<(Scalar s, const Tensor& x) { return gt(x, s); }
[[nodiscard]] inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
[[nodiscard]] inline Tensor operator<=(const Tensor& x, Scalar s) { return le(x, s); }
[[nodiscard]] inline Tensor operator<=(Scalar s, const Tensor& x) { return ge(x, s); }
[[nodiscard]] inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
[[nodiscard]] inline Tensor operator>(const Tensor& x, Scalar s) { return gt(x, s); }
[[nodiscard]] inline Tensor operator>(Scalar s, const Tensor& x) { return lt(x, s); }
[[nodiscard]] inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
[[nodiscard]] inline Tensor operator>=(const Tensor& x, Scalar s) { return ge(x, s); }
[[nodiscard]] inline Tensor operator>=(Scalar s, const Tensor& x) { return le(x, s); }
/// Bool tensors; any value but 0 (NaN too) counts as true.
[[nodiscard]] Tensor logical_and(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_or(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_not(const Tensor& x);
/// Bit by bit; of bools, logic. Throws: DTypeError for floating operands. Source: torch.bitwise_and.
[[nodiscard]] Tensor bitwise_and(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor bitwise_and(const Tensor& x, Scalar s);
[[nodiscard]] Tensor bitwise_or(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor bitwise_or(const Tensor& x, Scalar s);
[[nodiscard]] Tensor bitwise_xor(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor bitwise_xor(const Tensor& x, Scalar s);
[[nodiscard]] Tensor bitwise_not(const Tensor& x);
[[nodiscard]] inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
[[nodiscard]] inline Tensor operator&(const Tensor& x, Scalar s) { return bitwise_and(x, s); }
[[nodiscard]] inline Tensor operator&(Scalar s, const Tensor& x) { return bitwise_and(x, s); }
[[nodiscard]] inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
[[nodiscard]] inline Tensor operator|(const Tensor& x, Scalar s) { return bitwise_or(x, s); }
[[nodiscard]] inline Tensor operator|(Scalar s, const Tensor& x) { return bitwise_or(x, s); }
[[nodiscard]] inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
[[nodiscard]] inline Tensor operator^(const Tensor& x, Scalar s) { return bitwise_xor(x, s); }
[[nodiscard]] inline Tensor operator^(Scalar s, const Tensor& x) { return bitwise_xor(x, s); }
[[nodiscard]] inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
/// condition ? a : b; nothing of the other operand shows, nor does gradient reach it. `condition` must be
/// bool (DTypeError).
[[nodiscard]] Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
[[nodiscard]] Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// f32 unless both are integers or bools, which give i64 or bool.
[[nodiscard]] Tensor where(const Tensor& condition, Scalar a, Scalar b);
/// min(max(x, lower), upper): `upper` where lower > upper. NaN stays. The gradient passes where
/// lower <= x <= upper. At least one bound must be given (ValueError).
[[nodiscard]] Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {});
/// clamp with tensors as bounds (either may be undefined), which get the gradient where they decide.
[[nodiscard]] Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
[[nodiscard]] Tensor clamp_min(const Tensor& x, Scalar min);
[[nodiscard]] Tensor clamp_max(const Tensor& x, Scalar max);

// --- functions of one number (pointwise/unary.cu, exponential.cu)

/// -x. Throws: DTypeError for bool.
[[nodiscard]] Tensor neg(const Tensor& x);
/// |x|; gradient 0 at 0 and at NaN.
[[nodiscard]] Tensor abs(const Tensor& x);
/// -1, 0 or 1 (0 for 0 and NaN); gradient 0.
[[nodiscard]] Tensor sign(const Tensor& x);
/// x * x; bool gives i64.
[[nodiscard]] Tensor square(const Tensor& x);
/// e^x. Runs in f32 under autocast.
[[nodiscard]] Tensor exp(const Tensor& x);
/// Natural logarithm: -inf at 0, NaN below. Runs in f32 under autocast.
[[nodiscard]] Tensor log(const Tensor& x);
/// Square root, correctly rounded: NaN below 0. Gradient +inf at 0.
[[nodiscard]] Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x). Runs in f32 under autocast.
[[nodiscard]] Tensor rsqrt(const Tensor& x);
/// 1 / x. Runs in f32 under autocast.
[[nodiscard]] Tensor reciprocal(const Tensor& x);

// --- activations (pointwise/relu.cu, activation.cu)

/// max(x, 0); gradient 0 at 0. Throws: DTypeError for bool.
[[nodiscard]] Tensor relu(const Tensor& x);
/// x times the normal distribution function of x. x must be floating (DTypeError). Source: Hendrycks and
/// Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
[[nodiscard]] Tensor gelu(const Tensor& x, GeluApproximation approximate = GeluApproximation::none);
/// 1 / (1 + e^-x).
[[nodiscard]] Tensor sigmoid(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
/// x sigmoid(x). x must be floating (DTypeError).
[[nodiscard]] Tensor silu(const Tensor& x);

// --- gradients of the above as ops of their own, one pass each; operands have one shape or broadcast

/// 0 where out <= 0, else grad (NaN lets it pass).
[[nodiscard]] Tensor relu_backward(const Tensor& grad, const Tensor& out);
/// grad * out * (1 - out).
[[nodiscard]] Tensor sigmoid_backward(const Tensor& grad, const Tensor& out);
/// grad * (1 - out^2).
[[nodiscard]] Tensor tanh_backward(const Tensor& grad, const Tensor& out);
/// grad * gelu'(x).
[[nodiscard]] Tensor gelu_backward(const Tensor& grad, const Tensor& x,
                                   GeluApproximation approximate = GeluApproximation::none);
/// grad * silu'(x).
[[nodiscard]] Tensor silu_backward(const Tensor& grad, const Tensor& x);
/// grad where min <= x <= max, else 0.
[[nodiscard]] Tensor clamp_backward(const Tensor& grad, const Tensor& x, std::optional<Scalar> min,
                                    std::optional<Scalar> max);
/// Gradient of maximum(a, b) for a: grad where a > b, half of it where a = b, 0 where a < b, grad where
/// either is NaN. For b, and for minimum, swap a and b.
[[nodiscard]] Tensor maximum_backward(const Tensor& grad, const Tensor& a, const Tensor& b);

}  // namespace mezzo
