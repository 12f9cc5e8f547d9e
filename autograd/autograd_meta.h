// AutogradMeta, autograd's state of a tensor: its gradient, hooks, 16-bit copies and gradient receiver. A
// tensor itself (core/tensor.h) has only an opaque handle on it, which is empty until somebody needs one of
// these; so results of ops have none. Internal: no installed header includes this one.
//
// Several threads may run backwards into one leaf while others read or clear its gradient or step an
// optimizer. So each state has a lock, which a thread holds while it reads or changes the gradient. A thread
// that works on the gradients of many leaves at once holds the locks of all (autograd/gradient_locks.h).
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "mezzo/autograd/leaf_lock.h"
#include "mezzo/core/layout.h"
#include "mezzo/core/memory/stream_mark.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// A 16-bit copy of an f32 leaf's values, kept with the leaf by autocast and by optimizers
/// (autograd/half_copy.h).
struct HalfCopy {
  Ref<Storage> storage;       ///< dense in the leaf's memory format, empty when dropped
  std::uint32_t version = 0;  ///< version of the leaf that it equals
  bool wanted = false;        ///< autocast has asked for this dtype: optimizers may keep it fresh
  bool kept = false;          ///< an optimizer rewrites it with every step: do not drop
  /// Where in a stream it was cast; empty: in the default stream, or by an optimizer, after whose steps a
  /// program lets other streams wait anyway.
  Ref<mezzo::detail::StreamMark> written;
};

/// The float8 codes of an f32 leaf, kept with it as a HalfCopy is, but by no optimizer.
struct Float8Copy {
  Tensor codes, inverse;  ///< undefined when dropped; codes perhaps widened
  std::uint32_t version = 0;
  DType rounded = DType::bf16;  ///< the 16-bit dtype that the values were rounded to first
  bool power_of_two = false;
  Ref<mezzo::detail::StreamMark> written;
};

/// How a leaf's copies lie in memory: as a cast of the leaf does, in its memory format.
[[nodiscard]] inline Dims half_copy_strides(const TensorImpl& leaf) {
  return layout::dense_strides("half_copy", leaf.shape, layout::format_of(leaf.shape, leaf.strides));
}

/// Hooks of one tensor, in order of registration.
struct GradHooks final : RefCounted {
  std::mutex mutex;  ///< guards the members; no hook is called with it held
  std::vector<std::pair<std::size_t, GradHook>> list;
  std::size_t next_id = 0;
};

/// Hooks of the results of one node, by output index: the node runs them also when the tensors are gone.
struct NodeHooks final : RefCounted {
  std::mutex mutex;
  std::vector<std::pair<std::uint32_t, Ref<GradHooks>>> list;
};

/// Who receives a leaf's gradients in place of `.grad` (autograd/gradient_receiver.h), and as which number.
struct LeafReceiver {
  Ref<RefCounted> receiver;  ///< a GradientReceiver; empty: nobody
  std::size_t index = 0;
};

/// The object that TensorImpl::autograd_meta points to.
struct AutogradMeta final : RefCounted {
  LeafLock lock;  ///< guards `grad`, its values while the library works on them, and the copies
  Tensor grad;    ///< of a leaf
  std::array<HalfCopy, 2> half_copies;  ///< of a leaf: f16, bf16
  Float8Copy float8_copy;               ///< of a leaf
  OnceRef<GradHooks> hooks;             ///< shared with the node that made the tensor
  LeafReceiver receiver;                ///< of a leaf, guarded by `lock`
};

/// The state of a tensor, or nullptr when nobody has needed it yet.
[[nodiscard]] inline AutogradMeta* meta_of(const TensorImpl& impl) noexcept {
  return static_cast<AutogradMeta*>(impl.autograd_meta.get());
}
[[nodiscard]] inline AutogradMeta* meta_of(const Tensor& tensor) noexcept { return meta_of(tensor.impl()); }

/// The state of a tensor, made if need be: threads that need it at the same time get the same one. It stays
/// until the tensor goes.
[[nodiscard]] inline AutogradMeta& ensure_meta(TensorImpl& impl) {
  if (AutogradMeta* const meta = meta_of(impl)) return *meta;
  return static_cast<AutogradMeta&>(impl.autograd_meta.set(make_ref<AutogradMeta>()));
}
[[nodiscard]] inline AutogradMeta& ensure_meta(const Tensor& tensor) { return ensure_meta(tensor.impl()); }

}  // namespace mezzo::autograd
