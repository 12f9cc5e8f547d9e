// An optimizer's step in a captured CUDA graph (core/cuda/graph.h): the state of the optimizer that replays
// rely on, and how masters follow their parameters between replays. Members of Optimizer that deal with
// captured steps.
#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/recorded/gradients.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// The handle that captured graphs have on an optimizer, which may end before them.
struct OptimizerLink final : RefCounted {
  Optimizer* optimizer = nullptr;  ///< nullptr when it is gone
  /// Counts what a captured step cannot follow: other options than the rates, other parameters, state that
  /// was taken away.
  std::uint32_t changes = 0;
};

/// The updates of one optimizer in one captured graph.
class RecordedUpdates final : public mezzo::detail::ReplayedState {
 public:
  RecordedUpdates(mezzo::detail::Recording& recording, Ref<OptimizerLink> link);

  /// To be called before the step makes the state of a parameter. Throws StateError when there is none yet:
  /// each replay would make it anew.
  void add(std::size_t group, std::size_t index, const StateNames& names);

  void recorded() override;
  void before_replay() override;
  void after_replay() noexcept override;

 private:
  struct Update {
    std::size_t group, index;
    Ref<Storage> memory;       ///< the parameter's
    bool follows = false;      ///< the master has to equal the parameter at the beginning
    bool fresh_after = false;  ///< and does at the end
  };

  [[nodiscard]] Optimizer::Parameter& parameter(const Update& update) const;

  mezzo::detail::Recording& recording_;
  Ref<OptimizerLink> link_;
  std::uint32_t changes_;
  std::vector<Update> updates_;
};

RecordedUpdates::RecordedUpdates(mezzo::detail::Recording& recording, Ref<OptimizerLink> link)
    : recording_(recording), link_(std::move(link)), changes_(link_->changes) {}

Optimizer::Parameter& RecordedUpdates::parameter(const Update& update) const {
  return link_->optimizer->groups_[update.group].parameters[update.index];
}

void RecordedUpdates::add(std::size_t group, std::size_t index, const StateNames& names) {
  const Optimizer::Group& all = link_->optimizer->groups_[group];
  const Optimizer::Parameter& one = all.parameters[index];
  const bool carries = !names.carried.empty();
  const bool masters = is_16bit(one.tensor.dtype()) && names.masters;
  const DType kept = names.masters == MasterWeights::split ? DType::i16 : DType::f32;
  const auto buffers = static_cast<std::ptrdiff_t>(names.buffers.size());
  const auto made = [](const Tensor& tensor) { return tensor.defined(); };
  if (!made(all.rates) || !made(one.step) || (carries && !made(one.carried)) ||
      (masters && (!made(one.master) || one.master.dtype() != kept)) ||
      !std::all_of(one.buffers.begin(), one.buffers.begin() + buffers, made)) {
    throw StateError("Optimizer.step", "a parameter that has had a step before one is recorded",
                     "the first one of " + link_->optimizer->parameter_name(group, index),
                     "run the step once as it is: what it makes would be made anew by every replay");
  }
  autograd::RecordedGradients::used(autograd::ensure_meta(one.tensor), one.tensor.device());
  for (const Tensor* tensor : {&all.rates, &all.ticket, &one.tensor, &one.step, &one.carried, &one.master}) {
    if (tensor->defined()) recording_.hold(tensor->impl().storage);
  }
  for (const auto* const tensors : {&one.buffers, &one.scales}) {
    for (const Tensor& tensor : *tensors) {
      if (tensor.defined()) recording_.hold(tensor.impl().storage);
    }
  }
  const auto same = [&](const Update& update) { return update.group == group && update.index == index; };
  if (std::any_of(updates_.begin(), updates_.end(), same)) return;  // a second step in one graph
  updates_.push_back({.group = group,
                      .index = index,
                      .memory = one.tensor.impl().storage,
                      .follows = masters && one.seen == one.tensor.version()});
}

void RecordedUpdates::recorded() {
  if (link_->optimizer == nullptr || link_->changes != changes_) return;  // replays will be refused
  for (Update& update : updates_) {
    const Optimizer::Parameter& now = parameter(update);
    update.fresh_after = now.seen == now.tensor.version();
  }
}

void RecordedUpdates::before_replay() {
  if (link_->optimizer == nullptr)
    mezzo::detail::refuse_replay("an optimizer that lives as long as the recorded step", "one that is gone");
  if (link_->changes != changes_) {
    mezzo::detail::refuse_replay(
        "an optimizer with the parameters, state and options (but for lr and momentum) that it was recorded "
        "with",
        "others (load_state_dict, add_param_group, remap, momentum from or to 0)");
  }
  const PlainOps plain;
  const OpObserverGuard no_observer{nullptr};
  for (const Update& update : updates_) {
    Optimizer::Parameter& now = parameter(update);
    if (now.tensor.impl().storage != update.memory)
      mezzo::detail::refuse_replay("parameters in the memory that they had when the step was recorded",
                                   "one that was moved or converted (Module::to)");
    if (!update.follows) continue;
    link_->optimizer->prepare_master(update.group, link_->optimizer->state_names(update.group), now);
  }
}

void RecordedUpdates::after_replay() noexcept {
  for (const Update& update : updates_) {
    Optimizer::Parameter& now = parameter(update);
    if (update.fresh_after) now.seen = now.tensor.version();
  }
}

// --- members of Optimizer

namespace {

OptimizerLink& link_to(const Ref<RefCounted>& link) { return static_cast<OptimizerLink&>(*link); }

}  // namespace

bool Optimizer::is_recording() const { return mezzo::detail::Recording::of(device_) != nullptr; }

void Optimizer::record_update(std::size_t group, std::size_t index, const StateNames& names) {
  mezzo::detail::Recording& recording = *mezzo::detail::Recording::of(device_);
  if (!link_) {
    link_ = make_ref<OptimizerLink>();
    link_to(link_).optimizer = this;
  }
  const Ref<OptimizerLink> link(&link_to(link_));
  recording.state<RecordedUpdates>(link.get(), recording, link).add(group, index, names);
}

void Optimizer::break_recordings() noexcept {
  if (link_) ++link_to(link_).changes;
}

void Optimizer::leave_recordings() noexcept {
  if (link_) link_to(link_).optimizer = nullptr;
}

}  // namespace mezzo::optim
