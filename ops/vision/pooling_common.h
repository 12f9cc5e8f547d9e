// Shared by the poolings: their windows with all checks, and images as the kernels take them.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include "mezzo/kernels/pool/pool.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/pooling.h"

namespace mezzo::ops {

/// Windows at even distances; an empty `stride` stands for kernel_size.
struct PoolAttrs {
  Dims kernel_size = {}, stride = {}, padding{0};
  bool ceil_mode = false;
  MEZZO_FIELDS(PoolAttrs, kernel_size, stride, padding, ceil_mode)
};
struct AdaptivePoolAttrs {
  Dims output_size;
  MEZZO_FIELDS(AdaptivePoolAttrs, output_size)
};

/// Of the gradient for an input whose spatial sizes are `size`; without kernel_size, of an adaptive pooling.
template <class Attrs>
struct PoolBackwardAttrs : Attrs {
  Shape size = {};
  std::optional<DType> dtype = {};
  static constexpr auto fields() {
    using A = PoolBackwardAttrs;
    return std::tuple_cat(Attrs::fields(), std::tuple{attr("size", &A::size), attr("dtype", &A::dtype)});
  }
};

/// Whether a tensor may be without channels.
enum class Channels { required, may_be_none };

/// Throws unless x is [N, C, `spatial` dims] or [C, `spatial` dims] without a size of 0 behind N.
void require_images(std::string_view op, const Tensor& x, std::size_t spatial,
                    Channels channels = Channels::required);

/// A shape with other spatial sizes, as many.
[[nodiscard]] Shape with_spatial_sizes(Shape shape, std::span<const std::int64_t> sizes);

/// The windows over an input of `sizes`, and how many there are. Checks all of it.
[[nodiscard]] kernels::Windows pool_windows(std::string_view op, const PoolAttrs& attrs, const Dims& dilation,
                                            const Shape& sizes);
/// The windows of an adaptive pooling, which share the input out; only the sizes of input and output are set.
[[nodiscard]] kernels::Windows adaptive_windows(std::string_view op, const AdaptivePoolAttrs& attrs,
                                                const Shape& sizes);
/// `sizes` with the input's size for each kKeepSize. Wrong sizes, and a wrong x, are left for the op to
/// refuse.
[[nodiscard]] AdaptivePoolAttrs adaptive_attrs(const Tensor& x, const AdaptiveSizes& sizes,
                                               std::size_t spatial);
/// The last `spatial` of a kernel's sizes.
[[nodiscard]] std::span<const std::int64_t> sizes_of(const kernels::Windows::Sizes& sizes,
                                                     std::size_t spatial);

/// The format in which images are pooled, and results returned.
[[nodiscard]] MemoryFormat image_format(const Tensor& x, std::size_t spatial);
/// Sets how images of `shape` lie in memory in that format.
void set_layout(kernels::Pooling& pooling, const Shape& shape, std::size_t spatial, MemoryFormat format);

/// Throws unless `size` can be the spatial sizes of an input, and `grad` an image with as many.
void require_sizes(std::string_view op, const Shape& size, const Tensor& grad);
/// Throws ShapeError unless `grad` is the gradient of a result over `windows`.
void require_pooled(std::string_view op, const Tensor& grad, const kernels::Windows& windows,
                    std::size_t spatial);
/// `dtype`, by default grad's. Throws DTypeError unless it is floating.
[[nodiscard]] DType gradient_dtype(std::string_view op, const Tensor& grad, std::optional<DType> dtype);

}  // namespace mezzo::ops
