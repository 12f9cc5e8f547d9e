// Convolutions, plain and transposed, over 1 to 3 spatial dims (torch.nn.functional.conv1d ...).
//
// Common contract. Shapes: x is [N, C, spatial..] or, for one sample, [C, spatial..]. Dtypes: all tensors
// share one floating dtype (DTypeError); sums are taken in f32 (f64 for f64) and rounded once (on a CUDA
// device cuDNN may round a 16-bit sum before it adds the bias, and then the result, as PyTorch does). All run
// in the low precision of an autocast region; gradients come out in the dtype of the tensor they belong to.
// The result is channels-last when x is; weights are read in any layout. Differentiable to any order. Throws:
// ShapeError for dims and channels that do not fit together and for a kernel larger than the padded input,
// ValueError for strides, dilations and groups below 1, negative padding and lists of the wrong length.
#pragma once

#include <string_view>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/spatial.h"

namespace mezzo {

/// Zeros around a convolution's input: `1`, `{2, 1}` (on both sides of each dim), or "same" (as many as give
/// an output of the input's size; an odd number has one more behind) or "valid" (none).
class ConvPadding {
 public:
  ConvPadding() = default;
  template <std::integral I>
  ConvPadding(I size) : sizes_(size) {}
  ConvPadding(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  ConvPadding(const Dims& sizes) : sizes_(sizes) {}
  /// Throws: ValueError for other words.
  ConvPadding(const char* word);

  [[nodiscard]] bool is_same() const { return same_; }
  /// Without "same": the sizes, one or one per dim.
  [[nodiscard]] const Dims& sizes() const { return sizes_; }

  /// Conversion as an attribute field (autograd/attrs.h).
  static constexpr std::string_view kTypeName = "ints/same/valid";
  static ConvPadding from_value(const Value& value);
  [[nodiscard]] Value to_value() const;

 private:
  SpatialSizes sizes_{0};
  bool same_ = false;
};

/// `conv2d(x, w, b, {.stride = 2, .padding = 1})`.
struct ConvOptions {
  SpatialSizes stride = 1;
  ConvPadding padding = 0;  ///< "same" needs strides of 1 (ValueError)
  SpatialSizes dilation = 1;
  std::int64_t groups = 1;
  MEZZO_FIELDS(ConvOptions, stride, padding, dilation, groups)
};
/// y[n, o, t] = bias[o] + sum over c, k of x[n, c, t * stride - padding + k * dilation] * weight[o, c, k],
/// with c over the channels of o's group.
/// Shapes: x [N, C, spatial..], weight [O, C / groups, kernel..], bias [O] or undefined -> [N, O, out..]; out
/// is (input + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down.
[[nodiscard]] Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const ConvOptions& options = {});
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const ConvOptions& options = {});
[[nodiscard]] Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                            const ConvOptions& options = {});

struct ConvTransposeOptions {
  SpatialSizes stride = 1, padding = 0;
  SpatialSizes output_padding = 0;  ///< below stride or dilation (ValueError)
  std::int64_t groups = 1;
  SpatialSizes dilation = 1;
  MEZZO_FIELDS(ConvTransposeOptions, stride, padding, output_padding, groups, dilation)
};
/// The gradient of a convolution with respect to its input: x is spread over the output by weight.
/// Shapes: x [N, C, spatial..], weight [C, O / groups, kernel..], bias [O] or undefined -> [N, O, out..]; out
/// is (input - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, which must not be negative
/// (ShapeError).
[[nodiscard]] Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                      const ConvTransposeOptions& options = {});
[[nodiscard]] Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                      const ConvTransposeOptions& options = {});
[[nodiscard]] Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                      const ConvTransposeOptions& options = {});

/// Whether the CPU may compute larger 3 x 3 convolutions of stride 1 and their gradients, in f32 or 16 bits,
/// by Winograd's F(4 x 4, 3 x 3): 2 to 3 times as fast as direct convolution. On at first. Errors are those
/// of f32 sums, but relative to the largest number in the tile of 6 x 6 inputs that a result is of (in all
/// inputs, for a weight's gradient; bound: kernels/conv/conv.h): beside a number 10,000 times as large as all
/// others, results that it has no part in lose four digits. The bits of results change with it. f64 never
/// goes this way.
[[nodiscard]] bool allow_winograd() noexcept;
void set_allow_winograd(bool allow) noexcept;

/// conv1d with time first and channels last: y[t, n, o] = bias[o] + sum over c, k of
/// x[t - pad + k, n, c] * weight[k, c, o].
/// Shapes: x [T, N, C], weight [K, C, O], bias [O] -> [T + 2 pad - K + 1, N, O].
/// Source: torch.conv_tbc.
[[nodiscard]] Tensor conv_tbc(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              std::int64_t pad = 0);

}  // namespace mezzo
