// 16-bit copies of f32 leaves. Autocast asks for them instead of casting a weight again in every region;
// optimizers may keep them fresh in the pass that updates the weight. A copy is storage only, valid for one
// version of the leaf, has no history of its own, and owns nothing that owns it. Where the leaf's memory may
// be written past the library (Storage::may_change_unseen), no copy outlives the outermost region.
#pragma once

#include <array>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// The values of an f32 leaf in f16 or bf16, without history: the cached copy when it has the leaf's version,
/// else a new one, which is cached. Safe to call for one leaf from several threads. `to_drop` is set for a
/// new one that no optimizer keeps: the caller ends its life by drop_half_copies.
[[nodiscard]] Tensor half_copy(const Tensor& leaf, DType dtype, bool* to_drop = nullptr);

/// half_copy for the input of one call of an op. Where autograd records, the copy has a history whose edges
/// lead straight to the leaf (Node::for_one_call), so no other op may get it.
[[nodiscard]] Tensor half_copy_for_call(const Tensor& leaf, DType dtype, bool* to_drop);

/// Drops the copies of a leaf that no optimizer keeps; what graphs still hold stays alive with them.
void drop_half_copies(TensorImpl& leaf);

/// For an optimizer that goes: drops the copies of a leaf, kept or not. Another optimizer's next step starts
/// anew.
void release_half_copies(const Tensor& leaf) noexcept;

/// The dtypes of copies.
inline constexpr std::array<DType, 2> kHalfCopyTypes{DType::f16, DType::bf16};

/// For optimizers, before they write `leaf`: its copies in the dtypes that autocast has used since the last
/// call of `half_copies_written`, equal to the leaf now and held by nobody else, so that they may be
/// overwritten. Empty for other dtypes, and where the leaf may change unseen, whose copies are dropped.
[[nodiscard]] std::array<Ref<Storage>, 2> writable_half_copies(const Tensor& leaf);

/// After writing the leaf, its copies, and bumping the leaf's version: the copies of `writable_half_copies`
/// are the leaf's values again.
void half_copies_written(const Tensor& leaf);

}  // namespace mezzo
