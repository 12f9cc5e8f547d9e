// Pure functions on shapes and strides (both in elements): what a view, a broadcast or a contiguous tensor
// is, without any memory. Everything that reasons about indices does so here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "mezzo/core/dims.h"

namespace mezzo {

/// The order in which the dims of a tensor lie in memory.
enum class MemoryFormat : std::uint8_t {
  contiguous,     ///< row-major
  channels_last,  ///< [N, C, spatial...] of 3 to 5 dims with dim 1 innermost: N, spatial..., C
  preserve,       ///< the format of the tensor at hand, where it is one of the two
};

}  // namespace mezzo

namespace mezzo::layout {

/// The product of a shape's sizes, sizes of 0 left out, stays below this, so that element counts, strides,
/// offsets and bytes fit 63 bits.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

/// Number of elements: the product of the sizes, 1 for a zero-dimensional shape. For shapes that are known to
/// be sound, as tensors' shapes are.
[[nodiscard]] std::int64_t numel(const Shape& shape);
/// numel() of a shape that comes from a caller. Throws: ShapeError in the name of `op` for a negative size
/// and for a product that reaches kMaxElements.
std::int64_t checked_numel(std::string_view op, const Shape& shape);
/// Row-major strides of a shape. [2, 3, 4] -> [12, 4, 1].
[[nodiscard]] Dims contiguous_strides(const Shape& shape);
/// Whether the elements lie row-major without gaps (dims of size 1 may have any stride; empty is contiguous).
[[nodiscard]] bool is_contiguous(const Shape& shape, const Dims& strides);
/// Strides of a dense tensor in `format`; preserve counts as contiguous. Throws: ShapeError in the name of
/// `op` for channels_last of other than 3 to 5 dims.
[[nodiscard]] Dims dense_strides(std::string_view op, const Shape& shape, MemoryFormat format);
/// Whether the elements lie densely in `format`, preserve counting as contiguous; dims of size 1 may have any
/// stride.
[[nodiscard]] bool is_dense_in(const Shape& shape, const Dims& strides, MemoryFormat format);
/// The format that results made of such a tensor take: channels_last for 3 to 5 dims when every stride
/// reaches beyond the dims inside of it, which are the channels, then the spatial dims from the last one on.
/// Gaps are allowed, so a slice of a channels-last tensor counts. Else contiguous. Strides of dims of size 1
/// count too: a [N, C, 1, 1] or a one-channel tensor keeps the format it was made in (torch's rule).
[[nodiscard]] MemoryFormat format_of(const Shape& shape, const Dims& strides);
/// Shape that two shapes broadcast to (NumPy's rule, aligned at the end). Throws: ShapeError in the name of
/// `op`, also for a result of too many elements.
[[nodiscard]] Shape broadcast(std::string_view op, const Shape& a, const Shape& b);
/// Strides that show a tensor of `shape` as `target` (0 where it is repeated). `shape` must broadcast to
/// `target`.
[[nodiscard]] Dims expand_strides(std::string_view op, const Shape& shape, const Dims& strides,
                                  const Shape& target);
/// Strides that show the same memory as `target`, or nothing when that needs a copy.
[[nodiscard]] std::optional<Dims> reshape_strides(const Shape& shape, const Dims& strides,
                                                  const Shape& target);
/// Resolves one -1 in `target` and checks it and the element count. Throws: ShapeError in the name of `op`.
[[nodiscard]] Shape resolve_reshape(std::string_view op, std::int64_t numel, Shape target);
/// Maps dim in [-rank, rank) to [0, rank); a rank of 0 is treated as 1, as PyTorch does. Throws: IndexError.
[[nodiscard]] std::int64_t wrap_dim(std::string_view op, std::int64_t dim, std::size_t rank);
/// Wraps every dim and refuses duplicates; an empty list means all dims. The result is sorted.
[[nodiscard]] Dims wrap_dims(std::string_view op, std::span<const std::int64_t> dims, std::size_t rank);

/// The given dims by falling size of their strides, dims of equal strides in the order given: the order in
/// which memory is walked from one element to the next.
[[nodiscard]] Dims along_memory(Dims dims, const Dims& strides);
/// Puts the dims into the order in which the memory of operand `leader` is walked, for loops that take
/// elements in any order. `strides` holds the strides of each operand for `shape`; both are rewritten.
void order_along(Shape& shape, std::span<Dims> strides, std::size_t leader);

/// Merges neighbouring dims that are one run in every operand, and drops dims of size 1, so that loops are as
/// long as they can be. `strides` holds the strides of each operand for `shape`; both are rewritten. A shape
/// never becomes empty of dims unless it has one element.
void collapse(Shape& shape, std::span<Dims> strides);

}  // namespace mezzo::layout
