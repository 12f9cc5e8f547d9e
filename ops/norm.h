// Normalizations: layer_norm and rms_norm over the last dims, group_norm, instance_norm and batch_norm
// over groups of channels. One header for the family.
//
// Common contract. y = (x - mean) / sqrt(variance + eps) * weight + bias, the variance being biased (divided
// by the number of values) and taken around the mean. x may have any strides. `weight` and `bias` may be
// undefined (1 and 0), each by itself (ShapeError for another shape than said). Dtypes: x is floating; weight
// and bias are floating and not wider than what x is computed in, so 16-bit x may come with f32 parameters
// (DTypeError otherwise). 16-bit values are computed in f32 and rounded once. The result has x's dtype,
// unless another one can be given. The results of layer_norm and rms_norm are row-major, all others keep x's
// memory format. In f32 the statistics are exact to a few f32 roundings of the deviations, for means much
// larger than these too and where their sums or squares leave f32; where a deviation itself leaves f32 they
// are exact to a few roundings of the largest one. A row that holds NaN or an infinity is NaN (in rms_norm
// infinity leaves zeros beside NaN), and no other row is. There is nothing wider than f64: there the same
// holds while the squares stay below its largest number, for values below 1e150, and rows beyond are zeros or
// NaN, as in PyTorch. Given (running) statistics are taken as they are: their deviations must stay in the
// compute type. For backward x and the small tensors are kept, no result and no statistic; twice
// differentiable.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// Over the last dims of x, whose sizes are `normalized_shape`.
/// Shapes: x [.., normalized_shape..], weight and bias `normalized_shape` -> x's.
/// Dtypes: floating -> x's, or `dtype`: then the result is computed from x as it is, in the wider of both
/// dtypes (at least f32), and rounded once; autocast then changes nothing. Otherwise under autocast 16-bit x
/// gives f32. Gradients have the dtypes of x, weight and bias.
/// Throws: ShapeError when x's shape does not end so, DTypeError for a dtype that is not floating. Source:
/// torch.nn.functional.layer_norm.
[[nodiscard]] Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                                const Tensor& bias = {}, double eps = 1e-5, std::optional<DType> dtype = {});

/// layer_norm without mean and bias: y = x / sqrt(mean x^2 + eps) * weight. eps: when not given the machine
/// epsilon of x's dtype, for 16-bit x of f32, in which it is computed. Source: torch.nn.functional.rms_norm.
[[nodiscard]] Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                              std::optional<double> eps = {}, std::optional<DType> dtype = {});

/// x in `num_groups` groups of neighbouring channels, each normalized over its channels and all dims behind
/// them.
/// Shapes: x [N, C, ..], weight and bias [C] -> x's.
/// Dtypes: under autocast 16-bit x gives f32.
/// Throws: ShapeError for less than 2 dims, ValueError when num_groups does not divide C, and for an input of
/// one value per group (as PyTorch, which counts over the batch). Source: torch.nn.functional.group_norm.
[[nodiscard]] Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {},
                                const Tensor& bias = {}, double eps = 1e-5);

/// Each channel of x normalized over the batch and all dims behind. `training`: with its own mean and
/// variance, and then running_mean and running_var, if given, are moved in place to (1 - momentum) old +
/// momentum new, unrecorded, the new variance divided by the number of values less one. Otherwise with the
/// running statistics, which count as constants of the graph unless they require grad.
/// Shapes: x [N, C, ..], the other tensors [C] -> x's.
/// Dtypes: not changed by autocast.
/// Throws: ShapeError for less than 2 dims, ValueError for one of the running statistics without the other,
/// none in evaluation, or one value per channel in training. Source: torch.nn.functional.batch_norm.
[[nodiscard]] Tensor batch_norm(const Tensor& x, const Tensor& running_mean = {},
                                const Tensor& running_var = {}, const Tensor& weight = {},
                                const Tensor& bias = {}, bool training = false, double momentum = 0.1,
                                double eps = 1e-5);

/// Each channel of each sample of x normalized over the dims behind. `use_input_stats`: with its own
/// statistics, whose means over the batch move the running statistics as in batch_norm; otherwise with the
/// running statistics.
/// Shapes: x [N, C, ..], the other tensors [C] -> x's.
/// Dtypes: not changed by autocast.
/// Throws: as batch_norm; ValueError for one value per channel and sample. Source:
/// torch.nn.functional.instance_norm.
[[nodiscard]] Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                                   const Tensor& running_var = {}, const Tensor& weight = {},
                                   const Tensor& bias = {}, bool use_input_stats = true,
                                   double momentum = 0.1, double eps = 1e-5);

}  // namespace mezzo
