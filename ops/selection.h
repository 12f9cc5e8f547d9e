// Ops that choose elements: by a mask, by rank, by chance; and what counts or pairs positions.
//
// Common contract. Names and argument meaning are PyTorch's. Dims count from the end when negative; one that
// is not there throws IndexError. Shapes: tensors may have any strides. Results are the same on every device
// and for any number of threads. Where the size of a result depends on values, the host reads them. All are
// compositions of other ops; gradients of any order reach the elements that were chosen.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/reduction.h"

namespace mezzo {

// --- by a mask (indexing/selection.cpp)

/// The positions of the elements that are not 0, in row-major order; NaN counts.
/// Shapes: x [d0, ..] -> [n, number of dims].
/// Dtypes: any -> i64.
[[nodiscard]] Tensor nonzero(const Tensor& x);
/// nonzero. Source: torch.argwhere.
[[nodiscard]] Tensor argwhere(const Tensor& x);
/// The elements where the mask is set, in row-major order.
/// Shapes: x and mask broadcast (ShapeError) -> [n].
/// Dtypes: x any, which the result keeps; mask bool (DTypeError).
[[nodiscard]] Tensor masked_select(const Tensor& x, const Tensor& mask);
/// x with position k of src along a dim in place of position index[k], for all k; the last one wins.
/// Shapes: index [k]; src x's with k for the size of the dim (ShapeError) -> x's.
/// Dtypes: x and src share one (DTypeError).
[[nodiscard]] Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);

// --- by rank (indexing/rank.cpp). NaN counts as the largest.

/// The k-th smallest element along a dim, k from 1 on, and where it stands; equal elements count in their
/// order. Throws: ValueError unless k is in [1, size].
[[nodiscard]] ValuesIndices kthvalue(const Tensor& x, std::int64_t k, std::int64_t dim = -1,
                                     bool keepdim = false);
/// The element in the middle of the sorted elements along a dim, of two the lower; NaN where there is a NaN.
/// Throws: ShapeError for no elements.
[[nodiscard]] ValuesIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The median of all elements.
[[nodiscard]] Tensor median(const Tensor& x);

/// The value between two neighbours of the sorted elements: the point on their line, one of them, their
/// middle, or the nearer one (of two as near, the one of even rank).
enum class QuantileInterpolation : std::uint8_t { linear, lower, higher, midpoint, nearest };
template <>
inline constexpr std::array<std::string_view, 5> kEnumNames<QuantileInterpolation>{
    "linear", "lower", "higher", "midpoint", "nearest"};
/// Options of quantile and nanquantile.
struct QuantileOptions {
  std::optional<std::int64_t> dim = {};  ///< all elements without one
  bool keepdim = false;
  QuantileInterpolation interpolation = QuantileInterpolation::linear;
};
/// The element of rank q (n - 1) of the n sorted elements along a dim; NaN where there is a NaN. Gradients
/// reach the elements it lies between, and q. The host reads q.
/// Shapes: q [] or [k] -> x's without the dim, for q [k] behind a dim of k.
/// Dtypes: x floating (DTypeError) -> x's, computed in f32 (f64) and rounded once; q floating.
/// Throws: ValueError for a q outside [0, 1]; ShapeError for no elements or a q of more dims. Source:
/// torch.quantile.
[[nodiscard]] Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
[[nodiscard]] Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});
/// quantile over the elements that are not NaN; NaN where there are none. Source: torch.nanquantile.
[[nodiscard]] Tensor nanquantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
[[nodiscard]] Tensor nanquantile(const Tensor& x, double q, const QuantileOptions& options = {});

// --- by value (indexing/unique.cpp). The host reads how many there are; no gradients.

/// Options of unique.
struct UniqueOptions {
  bool sorted = true;  ///< the result always is
  bool return_inverse = false, return_counts = false;
  std::optional<std::int64_t> dim = {};  ///< compares slices along it; without one, elements of the flat x
};
/// Options of unique_consecutive.
struct UniqueConsecutiveOptions {
  bool return_inverse = false, return_counts = false;
  std::optional<std::int64_t> dim = {};
};
/// Tensors that were not asked for are undefined.
struct UniqueValues {
  Tensor values;
  Tensor inverse;  ///< i64: for each element (slice) of x, its position in values
  Tensor counts;   ///< i64: how often each of values occurs
};
/// Each element once, in order; slices are ordered by their first element that differs. NaNs are all
/// different, and last.
/// Shapes: values [n], or x's with n along the dim; inverse x's, or [size of the dim]; counts [n].
/// Source: torch.unique.
[[nodiscard]] UniqueValues unique(const Tensor& x, const UniqueOptions& options = {});
/// The first of each run of equal elements (slices), in their order. Source: torch.unique_consecutive.
[[nodiscard]] UniqueValues unique_consecutive(const Tensor& x, const UniqueConsecutiveOptions& options = {});
/// How many elements lie in each of `bins` equal parts of [min, max], the last of which has its end too;
/// elements outside and NaNs count nowhere. Equal limits stand for the least and the largest element, or for
/// 1 around them where these are equal too.
/// Shapes: any -> [bins].
/// Dtypes: floating (DTypeError) -> x's; parts are found in f64.
/// Throws: ValueError for fewer than 1 bin, for a max below min, and for limits that are not finite. Source:
/// torch.histc.
[[nodiscard]] Tensor histc(const Tensor& x, std::int64_t bins = 100, double min = 0, double max = 0);

// --- places in a sorted sequence (indexing/search.cu); no gradients

/// How many elements of each row of a sequence, sorted upwards along its last dim, are smaller than a value
/// (`right`: or equal to it); all of them for NaN. What an unsorted sequence gives is not said.
/// Shapes: sorted_sequence [n] and values of any; or both of the same dims but the last (ShapeError) ->
/// values'.
/// Dtypes: any, compared in the promoted one -> i64. Source: torch.searchsorted.
[[nodiscard]] Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right = false);
[[nodiscard]] Tensor searchsorted(const Tensor& sorted_sequence, Scalar value, bool right = false);
/// searchsorted with the sequence last, which has one dim (ShapeError). Source: torch.bucketize.
[[nodiscard]] Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);
[[nodiscard]] Tensor bucketize(Scalar value, const Tensor& boundaries, bool right = false);

// --- by chance (indexing/draw.cpp)

/// 1 with probability p, else 0, element by element, from an f64 each; a p of NaN gives 0.
/// Shapes: p's.
/// Dtypes: floating (DTypeError) -> p's.
[[nodiscard]] Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());
/// Positions drawn with probabilities proportional to weights, one after the other, in the order in which
/// they are drawn; without `replacement` each at most once. By exponential clocks: the position whose number
/// divided by its weight is least. The host reads whether the weights are fit.
/// Shapes: weights [n] or [rows, n] -> [num_samples] or [rows, num_samples].
/// Dtypes: floating (DTypeError) -> i64.
/// Throws: ValueError for a num_samples below 1, for weights that are negative, not finite or all 0, and,
/// without replacement, for fewer positive weights than samples; ShapeError.
[[nodiscard]] Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement = false,
                                 Generator& generator = default_generator());

/// softmax((logits + g) / tau) with g from Gumbel's distribution: a draw by these logits that is near one
/// position and differentiable. `hard`: 1 at the largest and 0 elsewhere, with the same gradient. Computed in
/// f32 (f64) and rounded once.
/// Shapes: logits'.
/// Dtypes: floating (DTypeError) -> logits'.
/// Throws: ValueError unless tau is above 0. Source: torch.nn.functional.gumbel_softmax; Jang et al.,
/// arXiv:1611.01144.
[[nodiscard]] Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false,
                                    std::int64_t dim = -1, Generator& generator = default_generator());

// --- counts, differences, pairs (indexing/selection.cpp)

/// How often each number occurs, or the sum of its weights.
/// Shapes: x [n], weights x's or undefined -> [max(largest + 1, minlength)].
/// Dtypes: x integers (DTypeError); i64, or the weights' dtype.
/// Throws: ValueError for a negative number or minlength, ShapeError.
[[nodiscard]] Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t minlength = 0);
/// Each element minus the one before it along a dim, n times over; of bools whether they differ.
/// Shapes: x's with n less in the dim, at least 0.
/// Throws: ValueError for a negative n, IndexError for a 0-dim x.
[[nodiscard]] Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t dim = -1);
/// The first half of a dim times the sigmoid of the second. Computed in f32 (f64) and rounded once. Source:
/// Dauphin et al., arXiv:1612.08083.
/// Shapes: x's with half the size of the dim, which must be even (ShapeError).
/// Dtypes: floating (DTypeError) -> x's.
[[nodiscard]] Tensor glu(const Tensor& x, std::int64_t dim = -1);
/// The sum of a_i b_i along a dim, in f32 (f64) and rounded once.
/// Shapes: a and b broadcast (ShapeError).
[[nodiscard]] Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim = -1);

/// Which dim of a grid the first list runs along: the first (`ij`, a matrix) or the second (`xy`, a plot).
enum class MeshIndexing : std::uint8_t { ij, xy };
/// Of lists of positions, each as a grid over all of them: views.
/// Shapes: [n0], [n1], .. -> each [n0, n1, ..], or [n1, n0, ..] for `xy`.
/// Throws: ValueError for no lists, ShapeError for one of more than one dim.
[[nodiscard]] Tensors meshgrid(TensorList lists, MeshIndexing indexing = MeshIndexing::ij);
/// The positions of a row x col matrix on and below (tril) or above (triu) a diagonal, in row-major order.
/// Shapes: -> [2, n], rows above columns.
/// Dtypes: i64.
/// Throws: ValueError for negative sizes.
[[nodiscard]] Tensor tril_indices(std::int64_t row, std::int64_t col, std::int64_t offset = 0);
[[nodiscard]] Tensor triu_indices(std::int64_t row, std::int64_t col, std::int64_t offset = 0);

}  // namespace mezzo
