// Ops that turn many elements into one: sums, extrema, statistics, norms. One header for the family.
//
// Common contract. Shapes: the result has x's dims without those that `dim` lists, negative ones counted from
// the end; an empty list means all of them. `keepdim` keeps them with size 1. Throws: IndexError for a dim
// that is not there or given twice. Inputs may have any strides and stay as they are. Floating sums are
// accumulated in f64 whatever the input, and rounded once to the result's dtype: |error| <= u |result| + n
// 2^-53 sum|x_i| with the dtype's rounding unit u. Memory is read as it lies, so the order follows from shape
// and strides, and results of a tensor and of its contiguous copy may differ within that bound. They depend
// neither on threads nor on the instruction set. All are differentiable to any order but argmax, argmin, any,
// all.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// --- sums (reduce/reduction.cu)

/// sum of x_i; 0 over no elements.
/// Dtypes: floating -> x's, integers and bools -> i64 (modulo 2^64), or `dtype`: then x counts as converted
/// to it, except that 16-bit rounding happens at the end only. Under autocast the sum of 16-bit input is f32.
[[nodiscard]] Tensor sum(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false,
                         std::optional<DType> dtype = {});
/// sum / n; NaN over no elements.
/// Dtypes: x's, or `dtype` when given, must be floating (DTypeError), and is the result's.
[[nodiscard]] Tensor mean(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false,
                          std::optional<DType> dtype = {});
/// sum and mean of the elements that are not NaN, which get no gradient; nanmean is NaN over none.
/// Dtypes: sum's; mean's.
[[nodiscard]] Tensor nansum(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false,
                            std::optional<DType> dtype = {});
[[nodiscard]] Tensor nanmean(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false,
                             std::optional<DType> dtype = {});
/// Undoes broadcasting: sums x over the dims that `shape` lacks at the front or holds as 1. The same handle
/// when x has that shape and dtype.
/// Shapes: x's -> `shape`.
/// Dtypes: any -> x's, or `dtype`: then x counts as converted to it, except that 16-bit rounding happens at
/// the end only.
/// Throws: ShapeError when `shape` does not broadcast to x's.
[[nodiscard]] Tensor sum_to(const Tensor& x, const Shape& shape, std::optional<DType> dtype = {});
/// The sum of a matrix's diagonal.
/// Shapes: [m, n] -> [].
/// Dtypes: as for sum, but left alone by autocast.
/// Throws: ShapeError unless x has 2 dims.
[[nodiscard]] Tensor trace(const Tensor& x);
/// Whether some (every) element is not 0; NaN counts as true. false (true) over no elements.
/// Dtypes: any -> bool.
[[nodiscard]] Tensor any(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false);
[[nodiscard]] Tensor all(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false);

// --- extrema (reduce/extremum.cu) NaN wins over every number. Any dtype, which the result keeps. Throws:
// ShapeError when a reduced dim is empty.

/// The largest (smallest) element. Equal elements share the gradient evenly.
[[nodiscard]] Tensor amax(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false);
[[nodiscard]] Tensor amin(const Tensor& x, const ReducedDims& dim = {}, bool keepdim = false);
/// amax (amin) over all elements. Where the result is NaN, the NaNs share the gradient (with amax and amin no
/// element gets a finite gradient).
/// Shapes: any -> [].
[[nodiscard]] Tensor max(const Tensor& x);
[[nodiscard]] Tensor min(const Tensor& x);
/// torch.max and torch.min of two tensors: maximum and minimum (ops/pointwise.h).
[[nodiscard]] Tensor max(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor min(const Tensor& a, const Tensor& b);

/// An extremum along a dim and where it stands: i64 positions, of equal elements (or NaNs) the first.
struct ValuesIndices {
  Tensor values;
  Tensor indices;
};
/// The largest (smallest) element along one dim. The whole gradient goes to the element at the index.
[[nodiscard]] ValuesIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
[[nodiscard]] ValuesIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// amin and amax, along one dim or over all elements.
struct MinMax {
  Tensor min;
  Tensor max;
};
[[nodiscard]] MinMax aminmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// The index of the first largest (smallest) element: along `dim`, or into the flattened tensor without one
/// (then `keepdim` gives a shape of ones).
/// Dtypes: any -> i64.
[[nodiscard]] Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
[[nodiscard]] Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

// --- statistics (reduce/statistics.cu)

/// sum (x_i - mean)^2 / (n - 1), or / n when not `unbiased`; two passes, so a large mean costs no digits. NaN
/// over fewer than two (one) elements.
/// Dtypes: floating (DTypeError).
[[nodiscard]] Tensor var(const Tensor& x, const ReducedDims& dim = {}, bool unbiased = true,
                         bool keepdim = false);
/// sqrt(var). Its gradient is 0 where the deviation is 0.
[[nodiscard]] Tensor std(const Tensor& x, const ReducedDims& dim = {}, bool unbiased = true,
                         bool keepdim = false);
/// torch's `correction`: what is taken off n. Division by max(0, n - value). ValueError beyond +-2^53.
struct Correction {
  std::int64_t value = 1;
};
[[nodiscard]] Tensor var(const Tensor& x, const ReducedDims& dim, Correction correction,
                         bool keepdim = false);
[[nodiscard]] Tensor std(const Tensor& x, const ReducedDims& dim, Correction correction,
                         bool keepdim = false);
/// var (std) and mean.
struct VarMean {
  Tensor var;
  Tensor mean;
};
struct StdMean {
  Tensor std;
  Tensor mean;
};
[[nodiscard]] VarMean var_mean(const Tensor& x, const ReducedDims& dim = {}, Correction correction = {},
                               bool keepdim = false);
[[nodiscard]] StdMean std_mean(const Tensor& x, const ReducedDims& dim = {}, Correction correction = {},
                               bool keepdim = false);
/// log(sum e^x_i), of exponentials that cannot overflow; -inf over no elements. The gradient is that of
/// softmax.
/// Dtypes: floating -> x's, integers -> f32; f32 under autocast for 16-bit input.
[[nodiscard]] Tensor logsumexp(const Tensor& x, const ReducedDims& dim, bool keepdim = false);
/// (sum |x_i|^p)^(1/p). p = inf (-inf): largest (smallest) |x_i|; p = 0: how many are not 0. f32 input cannot
/// overflow within for p = 1, 2. Without elements only 0 <= p < inf has a norm, which is 0 (ShapeError
/// otherwise). The gradient is 0 where x_i is 0 and where the norm is 0; equal extrema share it evenly. For p
/// = 1 and infinity it is 0 where x_i is NaN.
/// Dtypes: floating (DTypeError) -> x's, or `dtype`; f32 under autocast for 16-bit input.
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, const ReducedDims& dim = {}, bool keepdim = false,
                          std::optional<DType> dtype = {});

}  // namespace mezzo
