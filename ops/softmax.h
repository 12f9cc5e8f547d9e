// Softmax and log-softmax along one dim, and the backward ops they share with whoever saves their outputs.
// Apart from the pointwise and reduction families because each is one fused pass over rows with a kernel of
// its own.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// y_i = exp(x_i - max x) / sum_j exp(x_j - max x) along `dim` (negative counts from the end). A row that
/// holds NaN or +inf, or nothing but -inf, gives NaN. In f32 |error| <= (|x_i - max x| + 80) 2^-24 y_i for
/// rows of any length.
/// Shapes: any, in any strides -> x's, contiguous; a 0-dim x counts as one element.
/// Dtypes: floating, and with a floating `dtype` integers and bool -> x's dtype, or `dtype` when given (x
/// counts as converted to it, except that 16-bit rounding happens at the end only); f32 under autocast.
/// 16-bit values are computed in f32 and rounded once.
/// Throws: DTypeError (`dtype` not floating, or x where there is none), IndexError (dim). Source:
/// torch.softmax.
[[nodiscard]] Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// y_i = (x_i - max x) - log sum_j exp(x_j - max x) along `dim`. In f32 |error| <= (4 |y_i| + 80) 2^-24; all
/// else as for softmax. Source: torch.log_softmax.
[[nodiscard]] Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// softmax(-x, dim, dtype). Source: torch.nn.functional.softmin.
[[nodiscard]] Tensor softmin(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// The gradient of softmax from its result's gradient: dx_i = y_i (g_i - sum_j g_j y_j) along `dim`, y =
/// `output`.
/// Shapes: grad and output the same (ShapeError) -> that.
/// Dtypes: floating (DTypeError) -> `dtype`, or the common dtype of both; one rounding.
/// Source: torch._softmax_backward_data.
[[nodiscard]] Tensor softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                                      std::optional<DType> dtype = {});

/// The gradient of log_softmax from its result's gradient: dx_i = g_i - exp(y_i) sum_j g_j along `dim`, y =
/// `output`; all else as for softmax_backward. Source: torch._log_softmax_backward_data.
[[nodiscard]] Tensor log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                                          std::optional<DType> dtype = {});

}  // namespace mezzo
