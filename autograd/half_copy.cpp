// A leaf's copies, one per 16-bit dtype, each with the version of the leaf it was made from. Decides when
// a copy is made anew, dropped, or kept because an optimizer writes it. The leaf's lock guards them, which an
// optimizer holds while it writes leaf and copies. A captured CUDA graph has copies of its own
// (autograd/recorded/copies.h), to which the same rules apply during capture.
#include "mezzo/autograd/half_copy.h"

#include <mutex>
#include <utility>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/recorded/copies.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

namespace {

using autograd::AutogradMeta;
using autograd::half_tensor;
using autograd::HalfCopy;
using autograd::RecordedCopies;
using mezzo::detail::Recording;
using mezzo::detail::StreamMark;

/// Fills the slot from the leaf's present values.
void refresh(HalfCopy& copy, const Tensor& leaf, DType dtype) {
  const NoGrad no_grad;
  const mezzo::detail::InferenceFrame no_inference(mezzo::detail::Inference::off);  // it may outlive the mode
  const NoInputHook no_autocast;
  const std::uint32_t version = leaf.version();  // as a write during the cast makes the copy an old one
  copy.storage = to(leaf.detach(), dtype).impl().storage;
  copy.version = version;
  // Readers in other streams wait for the cast. A captured graph has its copies for itself.
  copy.written =
      Recording::of(leaf.device()) != nullptr ? Ref<StreamMark>() : StreamMark::here(leaf.device());
}

/// Calls f(copy, dtype, owners) for the copies of a leaf that this thread's work uses. owners: references to
/// the storage when no tensor has one.
template <class F>
void each_copy(AutogradMeta& meta, const TensorImpl& leaf, F f) {
  Recording* const recording = Recording::of(leaf.storage->device());
  for (std::size_t i = 0; i < kHalfCopyTypes.size(); ++i) {
    if (recording == nullptr) {
      f(meta.half_copies[i], kHalfCopyTypes[i], 1);
      continue;
    }
    RecordedCopies::Copy* const copy = RecordedCopies::of(*recording).find(leaf, kHalfCopyTypes[i]);
    if (copy != nullptr)
      f(copy->now, kHalfCopyTypes[i], copy->entry && copy->now.storage == copy->entry ? 2 : 1);
  }
}

}  // namespace

Tensor half_copy_for_call(const Tensor& leaf, DType dtype, bool* to_drop) {
  Outputs cast(half_copy(leaf, dtype, to_drop));
  if (grad_enabled()) {
    record(to_dtype_descriptor(), {leaf}, ToDTypeAttrs{dtype}, cast);
    static_cast<autograd::Node&>(*cast[0].impl().grad_fn).for_one_call = true;
  }
  return std::move(cast[0]);
}

Tensor half_copy(const Tensor& leaf, DType dtype, bool* to_drop) {
  if (leaf.dtype() != DType::f32 || !is_16bit(dtype)) {
    throw DTypeError("half_copy", "an f32 leaf and a 16-bit dtype",
                     to_string(leaf.dtype()) + " and " + to_string(dtype), "use to(dtype)");
  }
  AutogradMeta& meta = autograd::ensure_meta(leaf);
  const std::scoped_lock lock(meta.lock);
  HalfCopy& eager = meta.half_copies[dtype == DType::f16 ? 0 : 1];
  Recording* const recording = Recording::of(leaf.device());
  HalfCopy& copy =
      recording == nullptr ? eager : RecordedCopies::of(*recording).use(*recording, leaf, dtype, eager).now;
  const bool unseen = copy.kept && leaf.impl().storage->may_change_unseen();
  if (!copy.storage || copy.version != leaf.version() || unseen) {
    if (unseen) copy.kept = false;
    refresh(copy, leaf, dtype);
    if (to_drop != nullptr) *to_drop = !copy.kept;
  }
  copy.wanted = true;
  Tensor values = half_tensor(copy.storage, leaf.impl(), dtype);
  if (recording == nullptr) StreamMark::wait(copy.written, values);
  return values;
}

void drop_half_copies(TensorImpl& leaf) {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  each_copy(*meta, leaf, [](HalfCopy& copy, DType /*dtype*/, std::uint32_t /*owners*/) {
    if (!copy.kept) copy.storage = {};
  });
  meta->float8_copy = {};
}

void release_half_copies(const Tensor& leaf) noexcept {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  meta->half_copies = {};
  meta->float8_copy = {};
}

std::array<Ref<Storage>, 2> writable_half_copies(const Tensor& leaf) {
  std::array<Ref<Storage>, 2> result;
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return result;
  const std::scoped_lock lock(meta->lock);
  each_copy(*meta, leaf.impl(), [&](HalfCopy& copy, DType dtype, std::uint32_t owners) {
    if (!copy.wanted || leaf.impl().storage->may_change_unseen()) {
      copy = {};
      return;
    }
    const bool usable = copy.storage && copy.version == leaf.version() && copy.storage->use_count() == owners;
    if (!usable) refresh(copy, leaf, dtype);
    result[dtype == DType::f16 ? 0 : 1] = copy.storage;
  });
  return result;
}

void half_copies_written(const Tensor& leaf) {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  each_copy(*meta, leaf.impl(), [&](HalfCopy& copy, DType /*dtype*/, std::uint32_t /*owners*/) {
    if (!copy.wanted) return;
    copy.version = leaf.version();
    copy.wanted = false;
    copy.kept = true;
  });
}

}  // namespace mezzo
