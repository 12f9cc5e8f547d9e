// Checks `.grad` before each replay and restores it afterwards.
#include "mezzo/autograd/recorded/gradients.h"

#include <mutex>
#include <utility>

namespace mezzo::autograd {

namespace {

constexpr char kGradientsKey = 0;  // its address is the key of RecordedGradients in a Recording

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() ? a.impl().storage == b.impl().storage : a.defined() == b.defined();
}

void set_grad_of(AutogradMeta& meta, Tensor gradient) {
  const std::scoped_lock lock(meta.lock);
  std::swap(meta.grad, gradient);  // the old gradient is freed after the unlock, as a graph may hang on it
}

}  // namespace

void RecordedGradients::note(AutogradMeta& meta, Device device, bool used) {
  mezzo::detail::Recording* const recording = mezzo::detail::Recording::of(device);
  if (recording == nullptr) return;
  auto& gradients = recording->state<RecordedGradients>(&kGradientsKey).gradients_;
  for (const Gradient& known : gradients) {
    if (known.meta.get() == &meta) return;  // what the captured work does with it later does not matter
  }
  gradients.push_back({Ref<AutogradMeta>(&meta), used, used ? meta.grad : Tensor(), {}});
}

RecordedGradients::~RecordedGradients() {
  if (!recorded_) put_back();
}

/// Leaves get back the `.grad` from before the capture, which has run nothing.
void RecordedGradients::put_back() noexcept {
  for (const Gradient& gradient : gradients_) {
    if (gradient.used) set_grad_of(*gradient.meta, gradient.before);
  }
}

void RecordedGradients::recorded() {
  for (Gradient& gradient : gradients_) gradient.after = gradient.meta->grad;
  recorded_ = true;
  put_back();
}

void RecordedGradients::before_replay() {
  for (const Gradient& gradient : gradients_) {
    if (!gradient.used) continue;
    const std::scoped_lock lock(gradient.meta->lock);
    if (same_memory(gradient.meta->grad, gradient.before)) continue;
    mezzo::detail::refuse_replay(
        gradient.before.defined() ? "the gradients that the step was recorded with"
                                  : "parameters without gradients, as the step was recorded",
        "others (zero_grad, backward or set_grad between calls; have zero_grad() begin the step)");
  }
}

void RecordedGradients::after_replay() noexcept {
  for (const Gradient& gradient : gradients_) set_grad_of(*gradient.meta, gradient.after);
}

}  // namespace mezzo::autograd
