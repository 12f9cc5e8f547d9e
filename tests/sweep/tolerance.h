// The one table of tolerances of the sweep. How exact an op must be follows from what it is: it moves values,
// maps each of them, or adds many of them up.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "mezzo/autograd/op.h"
#include "mezzo/core/dtype.h"

namespace mezzo::sweep {

/// What an op does to its values.
enum class Exactness : std::uint8_t {
  exact,        ///< moves them: views, copies, joins
  pointwise,    ///< a function of few numbers: a few ulp of the compute type
  accumulated,  ///< sums of k products or steps: k ulp
};

/// Ops that only move or choose values. Views are recognised by their memory; this lists what copies.
inline constexpr std::array<std::string_view, 16> kCopies{
    "abs", "amax", "amin",    "cat",    "clone", "flatten",        "maximum",   "minimum",
    "neg", "relu", "reshape", "repeat", "stack", "slice_backward", "to_device", "where"};

[[nodiscard]] inline Exactness exactness_of(const OpInfo& info, bool is_view) {
  const bool copies = std::find(kCopies.begin(), kCopies.end(), info.name.value) != kCopies.end();
  if (is_view || copies) return Exactness::exact;
  return info.elementwise ? Exactness::pointwise : Exactness::accumulated;
}

/// Ops that add up or multiply elements in the order of their memory (ops/reduction.h), so that strides show
/// in the last place.
inline constexpr std::array<std::string_view, 9> kFollowMemory{
    "group_norm_backward", "mean", "norm", "normalize", "prod", "std", "sum", "sum_to", "var"};

/// A CUDA device rounds the weights of attention to 16 bits, as its matrix units take no others
/// (kernels/attention/cuda_flash_tiles.h). They sum to 1. Its gradients are sums of products of more such
/// numbers, and are allowed what gradients are.
inline constexpr std::string_view kRoundsWeights = "scaled_dot_product_attention",
                                  kRoundsFactors = "scaled_dot_product_attention_backward";

/// There cuDNN may round a 16-bit convolution before it adds the bias, and then the sum: seen of a transposed
/// one over three dims (9.19 on an H200). The names of convolutions begin so.
inline constexpr std::string_view kRoundsProducts = "conv";

/// Ops whose float8 products a GPU cuts (tests/support/gpu.h), and how many of them a sum of a sample has.
inline constexpr std::array<std::string_view, 2> kCutsProducts{"matmul_f8", "linear_f8"};
inline constexpr double kCutProducts = 32;

/// Finite differences in f64: five points with a step of 1e-4. Their error is (1e-4)^4 times a fifth
/// derivative, and the rounding of f64 divided by the step.
inline constexpr double kStep = 1e-4;
inline constexpr double kDifferenceTolerance = 1e-7;

/// Units in the last place that a computation may be off by, of the result and the numbers that went into it:
/// to begin with, in gradients, and per number that is added up.
inline constexpr double kUlps = 1;
inline constexpr double kGradientUlps = 2;
inline constexpr double kUlpsPerTerm = 0.125;

/// What a comparison with f64 is about.
struct Accuracy {
  Exactness exactness;
  DType dtype;       ///< of the result
  double magnitude;  ///< of the numbers that went in
  double terms = 1;  ///< how many of them are added up
  bool gradient = false;
  bool rounded_terms = false;  ///< see kRoundsWeights and kRoundsProducts
  double cut = 0;              ///< see kCutsProducts
};

/// How far a result may be from `want`, that of f64. In 16 bits: half a unit in the last place for the one
/// rounding, on top of what the computation in f32 may be off; a gradient may be a product of a rounded one,
/// or a sum of such.
[[nodiscard]] inline double allowed_error(const Accuracy& a, double want) {
  if (a.exactness == Exactness::exact && !a.gradient) return 0;
  const DType compute = is_16bit(a.dtype) ? DType::f32 : a.dtype;
  const double sums = a.exactness == Exactness::accumulated || a.gradient ? kUlpsPerTerm * a.terms : 0;
  const double size = std::abs(want) + a.magnitude;
  const double computed =
      ((a.gradient ? kGradientUlps : kUlps) + sums) * info(compute).eps * size + a.cut * a.magnitude;
  if (!is_16bit(a.dtype)) return computed;
  const double smallest = a.dtype == DType::f16 ? 0x1p-25 : 0x1p-134;  // half a subnormal step
  const double half_ulp = info(a.dtype).eps / 2;
  const double terms = a.rounded_terms ? half_ulp * a.magnitude : 0;
  if (!a.gradient) return computed + terms + half_ulp * (std::abs(want) + computed + terms) + smallest;
  return computed + (kGradientUlps + sums) * (half_ulp * size + smallest);
}

}  // namespace mezzo::sweep
