// A leaf's copies, one per 16-bit dtype, each with the version of the leaf it was made from. Decides when
// a copy is made anew, dropped, or kept because an optimizer writes it. The leaf's lock guards them, which an
// optimizer holds while it writes leaf and copies. A captured CUDA graph has copies of its own
// (RecordedCopies), to which the same rules apply during capture.
#include "mezzo/autograd/half_copy.h"

#include <deque>
#include <mutex>
#include <utility>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

namespace autograd {

namespace {

constexpr char kCopiesKey = 0;  // its address is the key of RecordedCopies in a Recording

/// The copy as a tensor.
Tensor half_tensor(const Ref<Storage>& copy, const TensorImpl& leaf, DType dtype) {
  return Tensor(make_ref<TensorImpl>(copy, 0, leaf.shape, half_copy_strides(leaf), dtype, false));
}

/// The 16-bit copies that a captured CUDA graph (core/cuda/graph.h) uses. They are the graph's own: what
/// happens to a leaf's copies between replays, by eager steps, regions that end, or graphs of autograd that
/// hold them, does not touch the memory that the graph reads. Where the graph reads a weight's 16-bit values
/// before it writes the weight, no cast is captured: each replay begins with a copy that equals the leaf.
/// Most often the captured optimizer step has left it so; else, when somebody else has written the leaf, it
/// is cast anew into the same memory.
class RecordedCopies final : public mezzo::detail::ReplayedState {
 public:
  struct Copy {
    Ref<TensorImpl> leaf;
    DType dtype;
    Ref<Storage> memory;       ///< the leaf's, at capture
    Ref<Storage> entry;        ///< what the graph reads at its beginning; empty: it makes its copies itself
    HalfCopy now;              ///< as HalfCopy of a leaf, at this point of the capture
    bool fresh_after = false;  ///< the captured work leaves `entry` equal to the leaf
    bool fresh = false;        ///< `entry` equals version `version` of the leaf
    std::uint32_t version = 0;
  };

  /// The copies of this Recording, made at first need.
  [[nodiscard]] static RecordedCopies& of(mezzo::detail::Recording& recording) {
    return recording.state<RecordedCopies>(&kCopiesKey);
  }
  /// The leaf's copy of this dtype at this point of the capture, made at first need. Takes over the memory of
  /// `eager`, the leaf's own, unless somebody else has it; that one is dropped.
  [[nodiscard]] Copy& use(mezzo::detail::Recording& recording, const Tensor& leaf, DType dtype,
                          HalfCopy& eager) {
    if (Copy* const found = find(leaf.impl(), dtype)) return *found;
    Copy copy;
    copy.leaf = leaf.ref();
    copy.dtype = dtype;
    copy.memory = leaf.impl().storage;
    if (!recording.has_written(*copy.memory) && !copy.memory->may_change_unseen()) {
      const bool only_here = eager.storage && eager.storage->use_count() == 1;
      if (only_here) {
        copy.entry = eager.storage;
        recording.wrote(*copy.entry);
      } else {
        const auto bytes = static_cast<std::size_t>(leaf.numel() * size_of(dtype));
        copy.entry = recording.new_input(bytes);
      }
      copy.now.storage = copy.entry;
      copy.now.version = leaf.version();
      copy.now.kept = true;
    }
    eager = {};
    copies_.push_back(std::move(copy));
    return copies_.back();
  }
  /// nullptr when the captured work has not asked for it.
  [[nodiscard]] Copy* find(const TensorImpl& leaf, DType dtype) noexcept {
    for (Copy& copy : copies_) {
      if (copy.leaf.get() == &leaf && copy.dtype == dtype) return &copy;
    }
    return nullptr;
  }

  void recorded() override {
    for (Copy& copy : copies_) {
      copy.fresh_after =
          copy.entry && copy.now.storage == copy.entry && copy.now.version == copy.leaf->storage->version();
      copy.now = {};
    }
  }
  void before_replay() override {
    const PlainOps plain;
    const OpObserverGuard no_observer{nullptr};  // the copies are none of the program's ops
    for (Copy& copy : copies_) {
      if (copy.leaf->storage != copy.memory) {
        mezzo::detail::refuse_replay("parameters in the memory that they had when the step was recorded",
                                     "one that was moved or converted (Module::to)");
      }
      const std::uint32_t version = copy.memory->version();
      const bool fresh = copy.fresh && copy.version == version && !copy.memory->may_change_unseen();
      if (!copy.entry || fresh) continue;
      const Tensor leaf = Tensor(copy.leaf).detach();
      half_tensor(copy.entry, *copy.leaf, copy.dtype).copy_(leaf);
      copy.fresh = true;
      copy.version = version;
    }
  }
  void after_replay() noexcept override {
    for (Copy& copy : copies_) {
      copy.fresh = copy.fresh_after;
      copy.version = copy.memory->version();
    }
  }

 private:
  std::deque<Copy> copies_;  // a deque, as callers keep references
};

}  // namespace

}  // namespace autograd

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
