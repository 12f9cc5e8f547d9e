// Ops that rearrange the elements of one tensor: pieces, diagonals, windows, mirrors, shifts, triangles,
// borders. One header for the family.
//
// Common contract. Names and argument meaning are PyTorch's. Dims count from the end when negative; one that
// is not there throws IndexError. Dtypes: any, which the result keeps. Any strides, without elements too.
// Differentiable to any order. Values are copied as they are, NaN included.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "mezzo/autograd/op.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// The values of a border: a constant, the inside mirrored at its edge (which is not repeated), the edge
/// repeated, or the other end.
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };
template <>
inline constexpr std::array<std::string_view, 4> kEnumNames<PadMode>{"constant", "reflect", "replicate",
                                                                     "circular"};

// --- compositions of views (shape/rearrange.cu)

/// At most `chunks` pieces of one size along a dim, the last one shorter where it does not divide; views.
/// Throws: ValueError for fewer than 1, and for more than 2^20 of a dim without elements, which gives as many
/// as asked for.
[[nodiscard]] Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);
/// Dim source[i] moved to destination[i], all others in their order; a view. Throws: ShapeError for lists of
/// several lengths, IndexError for a dim given twice.
[[nodiscard]] Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);
/// movedim of one dim. A template so that braces always mean a list.
template <std::integral I, std::integral J>
[[nodiscard]] Tensor movedim(const Tensor& x, I source, J destination) {
  return movedim(x, Dims{static_cast<std::int64_t>(source)}, Dims{static_cast<std::int64_t>(destination)});
}
/// Of a vector the matrix that has it on a diagonal, `diagonal` above the main one (below when negative), and
/// zeros elsewhere; of a matrix that diagonal, a view. Throws: ShapeError for other numbers of dims.
[[nodiscard]] Tensor diag(const Tensor& x, std::int64_t diagonal = 0);
/// repeat with 1 for each dim of x that `reps` lacks at its front.
[[nodiscard]] Tensor tile(const Tensor& x, const Dims& reps);
/// Tensors side by side along dim 1, vectors along dim 0, 0-dim ones as vectors of one number. Throws: as
/// cat does.
[[nodiscard]] Tensor hstack(TensorList tensors);
/// Tensors one below the other, vectors and 0-dim tensors as rows. Throws: as cat does.
[[nodiscard]] Tensor vstack(TensorList tensors);
/// Channels as finer images, r = upscale_factor.
/// Shapes: [.., C r^2, H, W] -> [.., C, H r, W r].
/// Throws: ShapeError for fewer than 3 dims or channels that r^2 does not divide, ValueError for r < 1.
[[nodiscard]] Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/// Every position of a dim `repeats` times in a row; without a dim, of the flattened tensor. Throws:
/// ValueError for a negative number.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                                       std::optional<std::int64_t> dim = {});
/// Position k repeats[k] times (i64 or i32, one number for each, or one for all); the host reads them.
/// Throws: ShapeError for another count.
[[nodiscard]] Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                                       std::optional<std::int64_t> dim = {});

// --- windows (shape/windows.cu)

/// The diagonal of dims dim1 and dim2, `offset` above the main one (below when negative), as the last dim of
/// a view; it may be empty. Throws: ShapeError for one dim given twice.
[[nodiscard]] Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0,
                              std::int64_t dim2 = 1);
/// Zeros of `shape` with `grad` on that diagonal: its gradient.
[[nodiscard]] Tensor diagonal_backward(const Tensor& grad, const Shape& shape, std::int64_t offset,
                                       std::int64_t dim1, std::int64_t dim2);
/// x.unfold(dim, size, step): windows of `size` positions of a dim, `step` apart, as a new last dim of a
/// view, which shows elements several times when step < size (in-place writes are refused). A 0-dim x counts
/// as one of shape [1], and its one window is the result, [size]. Throws: ValueError for a size that is
/// negative or larger than the dim, and for a step below 1.
[[nodiscard]] Tensor tensor_unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step);
/// The sum of all windows, each added at its place in zeros of `shape`: the gradient of tensor_unfold.
[[nodiscard]] Tensor tensor_unfold_backward(const Tensor& grad, const Shape& shape, std::int64_t dim,
                                            std::int64_t size, std::int64_t step);

// --- new arrangements (shape/rearrange.cu); the results are contiguous copies

/// Reversed along the given dims; an empty list copies. Throws: IndexError for a dim given twice.
[[nodiscard]] Tensor flip(const Tensor& x, const Dims& dims);
/// Rotated by shifts[i] positions along dims[i], one after the other; without dims, by one shift in the
/// flattened tensor. Throws: ShapeError for lists of several lengths.
[[nodiscard]] Tensor roll(const Tensor& x, const IntList& shifts, const Dims& dims = {});
/// roll by one shift. A template so that braces always mean a list.
template <std::integral I>
[[nodiscard]] Tensor roll(const Tensor& x, I shift, const ReducedDims& dims = {}) {
  return roll(x, IntList{static_cast<std::int64_t>(shift)}, dims);
}
/// The matrices of the last two dims with zeros above (tril) or below (triu) a diagonal, counted upwards from
/// the main one. Throws: ShapeError for fewer than 2 dims.
[[nodiscard]] Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
[[nodiscard]] Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

// --- borders (shape/pad.cu)

/// A border around x: pad[0] positions before and pad[1] after the last dim, pad[2] and pad[3] for the one
/// before it, and so on; negative numbers cut off. `value` is for PadMode::constant. Throws: ShapeError for
/// an odd number of sizes or too many, where more than all positions are cut off, and for a border that the
/// dim cannot fill: reflect takes less than its size, circular at most the size of what is not cut off, which
/// is all that it repeats. Other than in PyTorch any mode takes any dims.
[[nodiscard]] Tensor pad(const Tensor& x, const IntList& pad, PadMode mode = PadMode::constant,
                         Scalar value = 0);

}  // namespace mezzo
