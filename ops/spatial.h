// How functions with spatial dims (convolutions, poolings, fold, interpolate) take their sizes: one number
// for all dims, or one per dim.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "mezzo/core/dims.h"
#include "mezzo/kernels/pool/windows.h"

namespace mezzo {

/// `2`, or `{2, 1}`: one number for all spatial dims, or one per dim in their order (torch's IntOrTuple).
class SpatialSizes : public Dims {
 public:
  using Dims::Dims;
  template <std::integral I>
  constexpr SpatialSizes(I size) : Dims{static_cast<std::int64_t>(size)} {}
  constexpr SpatialSizes(const Dims& sizes) : Dims(sizes) {}
};

/// A size of an adaptive pooling's output that is the input's own.
inline constexpr std::int64_t kKeepSize = INT64_MIN;

/// Output sizes of an adaptive pooling: as SpatialSizes, with std::nullopt (torch's None) for a size to keep.
class AdaptiveSizes : public Dims {
 public:
  constexpr AdaptiveSizes() = default;
  constexpr AdaptiveSizes(std::nullopt_t) : Dims{kKeepSize} {}
  template <std::integral I>
  constexpr AdaptiveSizes(I size) : Dims{static_cast<std::int64_t>(size)} {}
  constexpr AdaptiveSizes(std::initializer_list<std::optional<std::int64_t>> sizes) {
    for (const std::optional<std::int64_t>& size : sizes) push_back(size.value_or(kKeepSize));
  }
  constexpr AdaptiveSizes(const Dims& sizes) : Dims(sizes) {}
};

namespace ops {

/// `sizes` for each of `spatial` dims. Throws: ValueError in the name of `op` for another number of them, and
/// for one below `least`.
[[nodiscard]] Dims per_dim(std::string_view op, std::string_view what, const Dims& sizes, std::size_t spatial,
                           std::int64_t least);
/// The last `spatial` sizes of a shape.
[[nodiscard]] inline Shape spatial_sizes(const Shape& shape, std::size_t spatial) {
  return Shape(std::span<const std::int64_t>(shape.end() - spatial, spatial));
}
/// How far a kernel reaches: dilation * (kernel - 1) + 1 for a kernel of at least 1, at most 2^61 + 1, so
/// that sums of two and the size of a tensor do not overflow.
[[nodiscard]] inline std::int64_t kernel_reach(std::int64_t kernel, std::int64_t dilation) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  return kernel - 1 > kMost / dilation ? kMost + 1 : dilation * (kernel - 1) + 1;
}
/// The kernel's form of the sizes of up to three spatial dims: missing sizes in front are `missing`.
[[nodiscard]] kernels::Windows::Sizes window_sizes(const Dims& sizes, std::int64_t missing);

}  // namespace ops
}  // namespace mezzo
