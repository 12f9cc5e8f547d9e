// Images resampled: interpolate on a regular grid, grid_sample at given coordinates.
//
// Common contract. Shapes: x is [N, C, spatial..], in any strides; the batch may be empty, all other sizes
// are at least 1 (ShapeError). Dtypes: floating (DTypeError); 16-bit values are computed in f32 and rounded
// once. The result is channels-last when x is. Conventions are PyTorch's, those at edges and kinks too.
// Differentiable to any order; gradients are added up in a fixed order, so they are the same bits every time.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/resample/grid_modes.h"
#include "mezzo/ops/spatial.h"

namespace mezzo {

/// linear, bilinear, trilinear: for 1, 2 and 3 spatial dims; bicubic: for 2; nearest, nearest_exact: for any.
enum class InterpolateMode : std::uint8_t { nearest, nearest_exact, linear, bilinear, trilinear, bicubic };
template <>
inline constexpr std::array<std::string_view, 6> kEnumNames<InterpolateMode>{
    "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"};

/// `2.0` or `{2.0, 0.5}`: one factor for all spatial dims, or one per dim; none by default.
class ScaleFactors {
 public:
  ScaleFactors() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> ScaleFactors(Number factor)
      : ScaleFactors({static_cast<double>(factor)}) {}
  ScaleFactors(std::initializer_list<double> factors);

  [[nodiscard]] std::span<const double> list() const;

  /// Conversion as an attribute field (autograd/attrs.h).
  static constexpr std::string_view kTypeName = "floats";
  static ScaleFactors from_value(const Value& value);
  [[nodiscard]] Value to_value() const;
  friend bool operator==(const ScaleFactors& a, const ScaleFactors& b) = default;

 private:
  SmallVector<double, 3> factors_;
};

/// `interpolate(x, {.scale_factor = 2.0, .mode = InterpolateMode::bilinear, .align_corners = false})`.
/// Either `size` or `scale_factor` (ValueError).
struct InterpolateOptions {
  SpatialSizes size = {};  ///< of the result, one for all spatial dims or one per dim; empty: not given
  ScaleFactors scale_factor = {};
  InterpolateMode mode = InterpolateMode::nearest;
  /// Whether the centres of the first and last places stay where they are, or their outer edges; false unless
  /// given. Not for nearest and nearest_exact (ValueError).
  std::optional<bool> align_corners = {};
  /// Whether places are computed from the sizes also where factors were given; false unless given.
  std::optional<bool> recompute_scale_factor = {};
  /// Whether a shrunk image is smoothed first: the filter is as wide as s where that is above 1. For bilinear
  /// and bicubic (ValueError), whose cubic then has -1/2 for -3/4, as PIL's.
  bool antialias = false;
};
/// y[n, c, o] = the value of x[n, c] at the place of o, per spatial dim, with s = 1 / scale_factor where that
/// decides, else in / out: nearest reads floor(s o), nearest_exact floor(s (o + 1/2)), all other modes
/// interpolate at s (o + 1/2) - 1/2, or at o (in - 1) / (out - 1) where align_corners. As in PyTorch, nearest
/// with 2 spatial dims takes s from the sizes where a size stays or doubles, and linear, bilinear and
/// trilinear copy where it stays.
/// Shapes: x [N, C, spatial..] with 1 to 3 spatial dims -> [N, C, out..]; out is `size`, or floor(in
/// scale_factor), at least 1 (ValueError).
/// Dtypes: floating -> x's; f32 under autocast, but with antialias x's, as in PyTorch.
/// Source: torch.nn.functional.interpolate.
[[nodiscard]] Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

template <>
inline constexpr std::array<std::string_view, 2> kEnumNames<GridSampleMode>{"bilinear", "nearest"};
template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<GridPadding>{"zeros", "border", "reflection"};

struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::bilinear;  ///< with three spatial dims bilinear is trilinear
  GridPadding padding_mode = GridPadding::zeros;
  /// Whether -1 and 1 are the centres of the first and last places, or their outer edges.
  bool align_corners = false;
};
/// y[n, c, o] = the value of x[n, c] at the coordinates grid[n, o]. The last dim of grid holds the coordinate
/// along W, that along H (and that along D), each from -1 to 1 inside. A coordinate that is NaN reads zeros,
/// or with border and reflection the first place. In nearest mode the gradient of grid is zero.
/// Shapes: x [N, C, H, W], grid [N, Ho, Wo, 2] -> [N, C, Ho, Wo]; x [N, C, D, H, W], grid [N, Do, Ho, Wo, 3]
/// -> [N, C, Do, Ho, Wo].
/// Dtypes: x and grid have one (DTypeError), under autocast the widest of both.
/// Source: torch.nn.functional.grid_sample.
[[nodiscard]] Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

}  // namespace mezzo
