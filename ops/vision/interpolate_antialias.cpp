// interpolate with antialias: along each spatial dim a product with a matrix of weights, which reach as far
// as the dim is shrunk. The matrices are made on the device.
#include <algorithm>

#include "mezzo/ops/detail/composed.h"
#include "mezzo/ops/ops.h"
#include "mezzo/ops/vision/sampling_common.h"

namespace mezzo {

namespace {

using namespace ops;
using op_samples::real;

constexpr std::string_view kAntialiased = "interpolate_antialiased";

/// `size`: of the result; `scale_factor`: per dim how many places of x one of the result stands for.
struct AntialiasedAttrs {
  Dims size = {};
  ScaleFactors scale_factor = {};
  InterpolateMode mode = InterpolateMode::bilinear;
  MEZZO_FIELDS(AntialiasedAttrs, size, scale_factor, mode)
};

/// The triangle 1 - |a|, or Keys' cubic with -1/2, at distances a.
Tensor antialias_filter(const Tensor& distances, bool is_cubic) {
  const Tensor a = abs(distances);
  if (!is_cubic) return clamp(1 - a, Scalar(0.0));
  constexpr double k = -0.5;
  const Tensor inner = ((k + 2) * a - (k + 3)) * a * a + 1.0, outer = (((a - 5.0) * a + 8.0) * a - 4.0) * k;
  return where(a < 1.0, inner, where(a < 2.0, outer, 0.0));
}

/// Weights [out, in], f64: row o is the filter around its place, as wide as `scale` wherever that is above 1.
Tensor antialias_weights(std::int64_t in, std::int64_t out, double scale, bool is_cubic, Device device) {
  const double reach = (is_cubic ? 2 : 1) * std::max(scale, 1.0), inverse = scale >= 1 ? 1 / scale : 1;
  const ValueOptions f64{.dtype = DType::f64, .device = device};
  const Tensor centre = unsqueeze((arange(out, f64) + 0.5) * scale, 1), place = arange(in, f64);
  const Tensor first = clamp(floor(centre - reach + 0.5), Scalar(0.0));
  const Tensor end = clamp(floor(centre + reach + 0.5), {}, Scalar(static_cast<double>(in)));
  const Tensor weights = antialias_filter((place - centre + 0.5) * inverse, is_cubic);
  const Tensor kept = where(logical_and(place >= first, place < end), weights, 0.0);
  return kept / sum(kept, 1, true);
}

Outputs antialiased_forward(const ForwardArgs<AntialiasedAttrs>& args) {
  const DType result = floating_result(kAntialiased, args), compute = compute_dtype(result);
  const Tensor& given = args.in(0);
  const std::span<const double> scales = args.attrs.scale_factor.list();
  if (given.dim() != 4 || args.attrs.size.size() != 2 || scales.size() != 2) {
    throw ShapeError(kAntialiased, "x [N, C, H, W], two sizes and two factors", to_string(given.shape()),
                     "call interpolate");
  }
  require_places(kAntialiased, given.shape());
  const bool is_cubic = args.attrs.mode == InterpolateMode::bicubic;
  const auto weights = [&](std::size_t d) {
    const std::int64_t in = given.size(static_cast<std::int64_t>(d) + 2), out = args.attrs.size[d];
    return to(antialias_weights(in, out, scales[d], is_cubic, given.device()), compute);
  };
  const Tensor wide = matmul(input_as(args, 0, compute), transpose(weights(1), 0, 1));
  return to(matmul(weights(0), wide), result).contiguous(given.suggest_memory_format());
}

std::vector<Sample<AntialiasedAttrs>> antialiased_samples() {
  return {
      {{real({2, 2, 7, 5})}, {.size = {3, 4}, .scale_factor = {7.0 / 3, 5.0 / 4}}},
      {{real({1, 2, 6, 3})}, {.size = {4, 5}, .scale_factor = {1.5, 0.6}, .mode = InterpolateMode::bicubic}}};
}
/// In the dtype of x under autocast, as PyTorch's.
constexpr Op<AntialiasedAttrs> antialiased_op = plain_op<AntialiasedAttrs>(
    kAntialiased, Category::passthrough, antialiased_samples, antialiased_forward, kDecomposed, {~0U, 0});
const Registered antialiased_registered{antialiased_op};

}  // namespace

Tensor ops::interpolate_antialiased(const Tensor& x, const Dims& size, const ScaleFactors& scales,
                                    InterpolateMode mode) {
  return bind(antialiased_op, {x}, AntialiasedAttrs{size, scales, mode});
}

}  // namespace mezzo
