// A captured graph's 16-bit copies: where their memory comes from, and when a replay casts them anew.
#include "mezzo/autograd/recorded/copies.h"

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"

namespace mezzo::autograd {

namespace {

constexpr char kKey = 0;  // its address is the key of RecordedCopies in a Recording

}  // namespace

Tensor half_tensor(const Ref<Storage>& copy, const TensorImpl& leaf, DType dtype) {
  return Tensor(make_ref<TensorImpl>(copy, 0, leaf.shape, half_copy_strides(leaf), dtype, false));
}

RecordedCopies& RecordedCopies::of(mezzo::detail::Recording& recording) {
  return recording.state<RecordedCopies>(&kKey);
}

RecordedCopies::Copy* RecordedCopies::find(const TensorImpl& leaf, DType dtype) noexcept {
  for (Copy& copy : copies_) {
    if (copy.leaf.get() == &leaf && copy.dtype == dtype) return &copy;
  }
  return nullptr;
}

RecordedCopies::Copy& RecordedCopies::use(mezzo::detail::Recording& recording, const Tensor& leaf,
                                          DType dtype, HalfCopy& eager) {
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

void RecordedCopies::recorded() {
  for (Copy& copy : copies_) {
    copy.fresh_after =
        copy.entry && copy.now.storage == copy.entry && copy.now.version == copy.leaf->storage->version();
    copy.now = {};
  }
}

void RecordedCopies::before_replay() {
  const NoGrad no_grad;
  const NoInputHook no_autocast;
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

void RecordedCopies::after_replay() noexcept {
  for (Copy& copy : copies_) {
    copy.fresh = copy.fresh_after;
    copy.version = copy.memory->version();
  }
}

}  // namespace mezzo::autograd
