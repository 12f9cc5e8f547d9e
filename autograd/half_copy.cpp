// A leaf's copies, one per 16-bit dtype, each with the version of the leaf it was made from. Decides when
// a copy is made anew, dropped, or kept because an optimizer writes it. The leaf's lock guards them, which an
// optimizer holds while it writes leaf and copies.
#include "mezzo/autograd/half_copy.h"

#include <mutex>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

namespace {

using autograd::AutogradMeta;
using autograd::HalfCopy;
using mezzo::detail::StreamMark;

constexpr std::array<DType, 2> kHalfTypes{DType::f16, DType::bf16};

/// The copy has the leaf's memory format, as a cast of the leaf has.
Tensor as_tensor(const HalfCopy& copy, const Tensor& leaf, DType dtype) {
  const Dims strides = layout::dense_strides("half_copy", leaf.shape(), leaf.suggest_memory_format());
  return Tensor(make_ref<TensorImpl>(copy.storage, 0, leaf.shape(), strides, dtype, false));
}

/// Fills the slot from the leaf's present values.
void refresh(HalfCopy& copy, const Tensor& leaf, DType dtype) {
  const NoGrad no_grad;
  const InputHookGuard no_autocast{InputHookState{}};
  const std::uint32_t version = leaf.version();  // as a write during the cast makes the copy an old one
  copy.storage = to(leaf.detach(), dtype).impl().storage;
  copy.version = version;
  copy.written = StreamMark::here(leaf.device());
}

}  // namespace

Tensor half_copy(const Tensor& leaf, DType dtype) {
  if (leaf.dtype() != DType::f32 || !is_16bit(dtype)) {
    throw DTypeError("half_copy", "an f32 leaf and a 16-bit dtype",
                     to_string(leaf.dtype()) + " and " + to_string(dtype), "use to(dtype)");
  }
  AutogradMeta& meta = autograd::ensure_meta(leaf);
  const std::scoped_lock lock(meta.lock);
  HalfCopy& copy = meta.half_copies[dtype == DType::f16 ? 0 : 1];
  if (!copy.storage || copy.version != leaf.version()) refresh(copy, leaf, dtype);
  copy.wanted = true;
  Tensor values = as_tensor(copy, leaf, dtype);
  StreamMark::wait(copy.written, values);
  return values;
}

void drop_half_copies(TensorImpl& leaf) {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  for (HalfCopy& copy : meta->half_copies) {
    if (!copy.kept) copy.storage = {};
  }
}

void release_half_copies(const Tensor& leaf) noexcept {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  meta->half_copies = {};
}

std::array<Tensor, 2> writable_half_copies(const Tensor& leaf) {
  std::array<Tensor, 2> result;
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return result;
  const std::scoped_lock lock(meta->lock);
  for (std::size_t i = 0; i < kHalfTypes.size(); ++i) {
    HalfCopy& copy = meta->half_copies[i];
    if (!copy.wanted) {
      copy = {};
      continue;
    }
    const bool usable = copy.storage && copy.version == leaf.version() && copy.storage->use_count() == 1;
    if (!usable) refresh(copy, leaf, kHalfTypes[i]);
    result[i] = as_tensor(copy, leaf, kHalfTypes[i]);
  }
  return result;
}

void half_copies_written(const Tensor& leaf) {
  AutogradMeta* const meta = autograd::meta_of(leaf);
  if (meta == nullptr) return;
  const std::scoped_lock lock(meta->lock);
  for (HalfCopy& copy : meta->half_copies) {
    if (!copy.wanted) continue;
    copy.version = leaf.version();
    copy.wanted = false;
    copy.kept = true;
  }
}

}  // namespace mezzo
