// The three bilinear maps behind all convolutions as ops: each one's gradients are the other two, so every
// derivative of a convolution is made of convolutions.
#pragma once

#include <optional>

#include "mezzo/kernels/conv/conv.h"
#include "mezzo/ops/convolution.h"
#include "mezzo/ops/forward.h"

namespace mezzo::ops {

/// How a kernel moves over its input, and the spatial sizes of the result: of y for `convolution`, of x for
/// convolution_backward_input, of the kernel for convolution_backward_weight. `padding`: in front. Lists have
/// one number per spatial dim. `dtype`: of the result, by default the inputs'; where it is given, inputs may
/// have different dtypes.
struct ConvolutionAttrs {
  Dims stride, padding, dilation;
  std::int64_t groups = 1;
  Shape size;
  std::optional<DType> dtype = {};
  MEZZO_FIELDS(ConvolutionAttrs, stride, padding, dilation, groups, size, dtype)
};

/// y of x, weight and bias (undefined for none); x and y with or without a batch dim.
[[nodiscard]] Tensor convolution_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         const ConvolutionAttrs& attrs);
/// The gradient of x, given y's gradient.
[[nodiscard]] Tensor convolution_backward_input(const Tensor& grad, const Tensor& weight,
                                                const ConvolutionAttrs& attrs);
/// The gradient of the weight, given y's gradient.
[[nodiscard]] Tensor convolution_backward_weight(const Tensor& grad, const Tensor& x,
                                                 const ConvolutionAttrs& attrs);

/// The kernels behind them, without autograd, for tensors that fit together in the dtype of the result.
/// `size` as in the attributes; `bias` may be undefined.
[[nodiscard]] Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const ConvolutionAttrs& attrs, DType result);
[[nodiscard]] Tensor convolve_transposed(const Tensor& y, const Tensor& weight, const Tensor& bias,
                                         const ConvolutionAttrs& attrs, DType result);

/// The attributes of the map whose result has the spatial sizes of `shape`, in `dtype`.
[[nodiscard]] ConvolutionAttrs with_size(const ConvolutionAttrs& attrs, const Shape& shape, DType dtype);
/// The sum over the batch and all places of each channel, [C] (x with or without a batch dim).
[[nodiscard]] Tensor channel_sums(const Tensor& x, std::size_t spatial, DType dtype);

/// Throws unless x is [N, `channels`, `spatial` dims] or [`channels`, `spatial` dims].
void require_image(std::string_view op, std::string_view what, const Tensor& x, std::size_t spatial,
                   std::int64_t channels);
/// Throws unless `groups` is positive and divides the channels.
void require_groups(std::string_view op, std::string_view what, std::int64_t channels, std::int64_t groups);

}  // namespace mezzo::ops
