// Softmax and log-softmax along one dim, and the backward ops they share with whoever saves their outputs.
// Apart from the pointwise and reduction families because each is one fused pass over rows with a kernel of
// its own.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// y_i = exp(x_i - max x) / sum_j exp(x_j - max x) along `dim` (negative counts from the end). x: floating,
/// any shape, a 0-dim one counts as one element. The result has x's shape, is contiguous, and has x's dtype,
/// or `dtype` when given (x is converted first); f32 under autocast. 16-bit input is widened, computed in f32
/// and rounded once. A row that holds NaN or +inf, or nothing but -inf, gives NaN. Error in f32: 3 ulp plus
/// the error of exp, and 64 eps from the sum. Throws DTypeError (x or `dtype` not floating), IndexError
/// (dim). torch.softmax.
[[nodiscard]] Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// y_i = (x_i - max x) - log sum_j exp(x_j - max x) along `dim`; all else as for softmax. torch.log_softmax.
[[nodiscard]] Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<DType> dtype = {});

/// The gradient of softmax from that of its result: dx_i = y_i (g_i - sum_j g_j y_j) along `dim`, y =
/// `output`. Same shapes (ShapeError), floating (DTypeError). The result is in `dtype`, or in the common
/// dtype of both; one rounding. torch._softmax_backward_data.
[[nodiscard]] Tensor softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                                      std::optional<DType> dtype = {});

/// The gradient of log_softmax from that of its result: dx_i = g_i - exp(y_i) sum_j g_j along `dim`, y =
/// `output`; all else as for softmax_backward. torch._log_softmax_backward_data.
[[nodiscard]] Tensor log_softmax_backward(const Tensor& grad, const Tensor& output, std::int64_t dim,
                                          std::optional<DType> dtype = {});

}  // namespace mezzo
