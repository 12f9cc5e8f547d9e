// Ops that read or write elements where a tensor of indices says. One header for the family.
//
// Common contract. Names and argument meaning are PyTorch's. Dims count from the end when negative; one that
// is not there throws IndexError. Shapes: tensors may have any strides and be without elements; a 0-dim one
// counts as one of shape [1]. Dtypes: any, which the result keeps. Two tensors of values must have one dtype
// (DTypeError); under autocast scatter_add and index_put promote them. Indices are i64, where PyTorch takes
// them also i32. On the CPU one out of range throws IndexError, on a CUDA device it becomes a fault
// (core/cuda/fault.h) and is not used. Results are the same for any number of threads: values that fall on
// one place are dealt with in row-major order, sums of 16-bit values in f32 and rounded once. They are the
// same on every device, too, but for floating sums of 128 values or more that fall on one place, of which a
// CUDA device adds up pieces of 128 first. Differentiable to any order in the values; each value that is
// written gets the gradient of its place, also where a later one won.
#pragma once

#include <cstdint>

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/reduction.h"

namespace mezzo {

/// How scatter_reduce joins the elements that fall on one place.
enum class ScatterReduction : std::uint8_t { sum, prod, mean, amax, amin };
template <>
inline constexpr std::array<std::string_view, 5> kEnumNames<ScatterReduction>{"sum", "prod", "mean", "amax",
                                                                              "amin"};
/// The reductions of torch.scatter's `reduce`.
enum class ScatterMode : std::uint8_t { add, multiply };

// --- along one dim (indexing/along_dim.cpp, indexing/scatter.cpp)

/// Position e of the result is x at e with e[dim] replaced by index[e].
/// Shapes: the result has index's.
/// Throws: ShapeError unless index has x's number of dims and, if it has elements, no other dim of it is
/// larger than x's.
[[nodiscard]] Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// The reverse of gather: x with src[e] written at the place that gather reads for e, for all e of index
/// (i64). src has no dim smaller than index; of several values for one place the last one wins.
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// scatter of one value, converted to x's dtype.
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value);
/// scatter, but src[e] is added to what is there.
[[nodiscard]] Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/// x with each place combined with all src[e] that fall on it, which x's own element takes part in if
/// `include_self`. Integers modulo 2^64, their mean rounded down (no mean of bools, DTypeError); NaN wins.
/// Computed in f32 or wider and rounded once. The gradient of amax and amin is shared evenly by all equal
/// elements, x's included; the first and second derivatives of prod are exact where elements are 0.
[[nodiscard]] Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                                    ScatterReduction reduce, bool include_self = true);
/// torch.scatter's reduce: scatter_reduce by sum or prod, but differentiable.
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                             ScatterMode reduce);
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value,
                             ScatterMode reduce);
/// The positions of a dim that `index` lists, in its order.
/// Shapes: index [k] -> x's with k for the size of the dim.
[[nodiscard]] Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with alpha * position k of src added to position index[k], for all k. Throws: ShapeError unless src has
/// x's shape but for dim, where it has an entry for each index.
[[nodiscard]] Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                               Scalar alpha = 1);

// --- several dims at once (indexing/index.cu) x[i0, i1, ...]: each entry is a tensor of integers (negative
// ones count from the end), all of them broadcast together, or a bool mask over as many dims as it has, which
// stands for the positions where it is true (on a CUDA device the host reads it), or undefined, which stands
// for a whole dim. Dims that are not listed follow whole. The dims of the indices take the place of the
// indexed dims, or come first when these are not side by side. Throws: ShapeError for too many indices and
// for what does not fit.

/// The elements at these positions.
[[nodiscard]] Tensor index(const Tensor& x, TensorList indices);
/// x with `values`, broadcast to the shape that index gives, written there; the last one wins. Or, to
/// `accumulate`, added to what is there.
[[nodiscard]] Tensor index_put(const Tensor& x, TensorList indices, const Tensor& values,
                               bool accumulate = false);

// --- order (indexing/sorting.cpp). NaN counts as the largest; equal elements keep their order.

/// x sorted along a dim, and where each element was. Stable whether asked for or not.
/// Shapes: both x's.
/// Dtypes: values x's, indices i64.
[[nodiscard]] ValuesIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                                 bool stable = false);
/// sort's indices.
[[nodiscard]] Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
/// The k largest (or smallest) elements along a dim, in falling (or rising) order, and where they stand; of
/// equal elements the first. The order is the same without `sorted`, which then asks for none.
/// Shapes: both x's with k for the size of the dim.
/// Dtypes: values x's, indices i64.
/// Throws: ValueError unless k is in [0, size].
[[nodiscard]] ValuesIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true,
                                 bool sorted = true);

}  // namespace mezzo
