// The notes of a region while its function runs the first time, the second run, and the comparison of both.
// The second run ends with an exception once all that backward needs is there.
#include "mezzo/autograd/region.h"

#include <algorithm>
#include <string>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/random.h"

namespace mezzo::autograd {

namespace {

using mezzo::detail::PerThread;
using mezzo::detail::Sequence;

constexpr std::string_view kName = "checkpoint";
constexpr std::string_view kSameFix =
    "let the function do the same each time: it must not depend on what changes between forward and backward";

/// Ends a recomputation. Not a std::exception, so that a function that handles those does not stop it.
struct StopRecomputation {
  const Region* region;
};

ThreadState thread_state;

/// Regions with values that were recomputed in the backward that runs on the thread.
constinit PerThread<std::vector<Ref<Region>>> recomputed_regions;

void note_recomputed(Region& region) {
  std::vector<Ref<Region>>& regions = recomputed_regions.get();
  // Regions that backward is done with go, with their inputs: most often it comes to the next one then.
  while (!regions.empty() && regions.back()->use_count() == 1) regions.pop_back();
  regions.emplace_back(&region);
}

/// "input 1 of mul, f32 [2, 3]".
std::string described_slot(const SavedName& name, DType dtype, const Shape& shape) {
  return std::string(name.is_output ? "output " : "input ") + std::to_string(name.index) + " of " +
         std::string(name.op) + ", " + std::string(to_string(dtype)) + " " + to_string(shape);
}

void require_version(const char* what, const Tensor& tensor, std::uint32_t version) {
  if (tensor.version() == version) return;
  throw AutogradError(
      kName, std::string(what) + " as it was in forward (version " + std::to_string(version) + ")",
      "a tensor of " + std::string(to_string(tensor.dtype())) + " " + to_string(tensor.shape()) +
          " at version " + std::to_string(tensor.version()),
      "it was written in place since, and the recomputation would read it; write to a clone() or after "
      "backward");
}

}  // namespace

void set_region_thread_state(const ThreadState& state) noexcept { thread_state = state; }

// --- Recomputable

Recomputable::Recomputable(Ref<Region> region, std::uint32_t slot, const Tensor& saved)
    : region_(std::move(region)),
      slot_(slot),
      grad_fn_(saved.impl().grad_fn),
      output_index_(saved.impl().output_index) {}

Recomputable::~Recomputable() {
  if (region_) region_->release_slot(slot_);
}

Recomputable::Value Recomputable::get() const {
  const Ref<Region> region = region_;
  Value value = region->value(slot_);
  Tensor alias = value.tensor.detach();
  alias.impl().grad_fn = grad_fn_;
  alias.impl().output_index = output_index_;
  value.tensor = std::move(alias);
  return value;
}

void Recomputable::drop_value() const noexcept { region_->drop_value(slot_); }

const Recomputable* RecomputableSaves::find(bool is_output, std::size_t index) const noexcept {
  for (const Entry& entry : entries) {
    if (entry.name.is_output == is_output && entry.name.index == index) return &entry.tensor;
  }
  return nullptr;
}

// --- the first run

Region::Region(Function function, std::span<const Tensor> inputs)
    : function_(std::move(function)), input_hook_(input_hook_state()) {
  // Made at its first use, it would be younger than the recorder of draws, which would not see it.
  static_cast<void>(default_generator());
  if (thread_state.take != nullptr) thread_state_ = thread_state.take();
  const RegionScope* const around = current_region();
  inputs_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.defined()) continue;
    inputs_[i].kept.version = input.version();
    const bool is_leaf = input.impl().requires_grad;
    const SavedName name{kName, false, static_cast<std::uint32_t>(i)};
    if (around != nullptr && !is_leaf && !around->recomputes) {
      const std::uint32_t slot = around->region.add_slot(name, input);
      inputs_[i].recomputable.emplace(Ref<Region>(&around->region), slot, input);
      continue;
    }
    inputs_[i].kept.tensor = with_present_history(input);
    if (around != nullptr && !is_leaf) around->region.deliver(name, input);
    if (around != nullptr && is_leaf && !around->recomputes) around->region.note_leaf(input);
  }
}

std::uint32_t Region::add_slot(const SavedName& name, const Tensor& saved) {
  slots_.push_back({.name = name,
                    .shape = saved.shape(),
                    .dtype = saved.dtype(),
                    .device = saved.device(),
                    .storage = saved.impl().storage.get(),
                    .version = saved.version()});
  return static_cast<std::uint32_t>(slots_.size() - 1);
}

void Region::note_leaf(const Tensor& leaf) { leaves_.emplace_back(leaf.ref(), leaf.version()); }

void Region::finish(std::span<const Tensor> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].version() == inputs_[i].kept.version) continue;
    throw AutogradError(kName, "a function that leaves its inputs as they are",
                        "one that has written to input " + std::to_string(i) + " in place",
                        "let it write to a clone() of the input");
  }
}

// --- the draws of both runs

RandomRange FirstDraws::record(const Ref<Sequence>& sequence, std::uint64_t blocks, Device device) {
  mezzo::detail::DrawRecorder* const outer = scope_.outer_recorder_of(*sequence);
  const RandomRange range =
      outer != nullptr ? outer->record(sequence, blocks, device) : RandomRange{sequence->advance(blocks)};
  region_.draws_.push_back({sequence, range, blocks});
  return range;
}

void FirstDraws::set_state(Sequence& sequence, const GeneratorState& state) {
  if (mezzo::detail::DrawRecorder* const outer = scope_.outer_recorder_of(sequence))
    outer->set_state(sequence, state);
  else
    sequence.set_state(state);
}

/// Gives what the first run drew, and leaves the generators alone.
class SameDraws final : public mezzo::detail::DrawRecorder {
 public:
  explicit SameDraws(Region& region) : region_(region), scope_(*this) {}
  [[nodiscard]] RandomRange record(const Ref<Sequence>& sequence, std::uint64_t blocks,
                                   Device /*device*/) override {
    const std::size_t at = region_.drawn_++;
    const bool same = at < region_.draws_.size() && region_.draws_[at].blocks == blocks &&
                      region_.draws_[at].sequence == sequence;
    if (!same) {
      throw AutogradError(
          kName, "the random draws of forward, " + std::to_string(region_.draws_.size()),
          at < region_.draws_.size() ? "another draw as number " + std::to_string(at) : "one more", kSameFix);
    }
    return region_.draws_[at].range;
  }
  void set_state(Sequence& /*sequence*/, const GeneratorState& /*state*/) override {}

 private:
  Region& region_;
  mezzo::detail::DrawRecorderScope scope_;
};

// --- the second run

/// A region that runs again, until this ends.
class Recomputation : mezzo::detail::NoCopy {
 public:
  explicit Recomputation(Region& region) : region_(region), progress_(progress()) {
    if (region.recomputes_) {
      throw AutogradError(kName, "a recomputation that does not need its own results",
                          "a function that runs backward through its own region",
                          "keep tensors that it makes out of its next run");
    }
    const auto needed = std::find_if(region.slots_.rbegin(), region.slots_.rend(),
                                     [](const Region::Slot& slot) { return slot.wanted; });
    region.needed_ = static_cast<std::size_t>(region.slots_.rend() - needed);
    region.delivered_ = region.drawn_ = region.results_taken_ = 0;
    note_recomputed(region);
    region.recomputes_ = true;
    progress().node = nullptr;
    if (thread_state.install != nullptr) installed_ = thread_state.install(region.thread_state_);
  }
  ~Recomputation() {
    region_.recomputes_ = false;
    progress() = progress_;
  }

 private:
  Region& region_;
  Progress progress_;
  Ref<RefCounted> installed_;
};

std::vector<Tensor> Region::inputs() const {
  std::vector<Tensor> inputs;
  for (const Input& input : inputs_) {
    const Recomputable::Value value = input.recomputable ? input.recomputable->get() : input.kept;
    if (value.tensor.defined()) require_version("an input", value.tensor, value.version);
    inputs.push_back(value.tensor);
  }
  return inputs;
}

void Region::run_again() {
  const std::vector<Tensor> inputs = this->inputs();
  for (const auto& [leaf, version] : leaves_) require_version("a parameter", Tensor(leaf), version);
  const Recomputation recomputation(*this);
  const mezzo::detail::GradModeFrame recording(true);
  const InputHookGuard hook(input_hook_);
  const SameDraws draws(*this);
  const RegionScope scope(*this, true);
  try {
    function_(inputs);
  } catch (const StopRecomputation& stop) {
    if (stop.region != this) throw;
  }
}

void Region::recompute() {
  try {
    run_again();
  } catch (...) {
    if (!recomputes_) drop_values();
    throw;
  }
  if (delivered_ >= needed_) return;
  const std::size_t delivered = delivered_;
  drop_values();
  refuse_missing(delivered, std::to_string(delivered));
}

void Region::refuse_missing(std::size_t slot, const std::string& got) const {
  const Slot& missing = slots_[slot];
  throw AutogradError(kName, std::to_string(needed_) + " saved tensors as in forward",
                      got + "; " + described_slot(missing.name, missing.dtype, missing.shape) + " is missing",
                      kSameFix);
}

void Region::deliver(const SavedName& name, const Tensor& saved) {
  if (delivered_ >= needed_) return;  // the function has caught StopRecomputation
  const std::size_t at = delivered_++;
  Slot& slot = slots_[at];
  const bool same = slot.name.op == name.op && slot.name.is_output == name.is_output &&
                    slot.name.index == name.index && slot.shape == saved.shape() &&
                    slot.dtype == saved.dtype() && slot.device == saved.device();
  if (!same) {
    throw AutogradError(kName,
                        "saved tensor " + std::to_string(at) + " as in forward (" +
                            described_slot(slot.name, slot.dtype, slot.shape) + ")",
                        described_slot(name, saved.dtype(), saved.shape()), kSameFix);
  }
  // Memory from outside of the region is the same as in forward, and may have been written since. A tensor
  // that the function makes anew counts only the function's own writes.
  const bool from_outside = slot.storage == saved.impl().storage.get();
  if (slot.wanted) slot.value = {saved.detach(), from_outside ? slot.version : saved.version()};
  if (delivered_ == needed_) throw StopRecomputation{this};
}

void Region::deliver_inputs(const OpInfo& info, Inputs inputs) {
  const bool records =
      grad_enabled() && std::any_of(inputs.begin(), inputs.end(),
                                    [](const TensorRef& input) { return input->requires_grad(); });
  if (!records) return;
  // Calls of one descriptor save the same inputs. So one whose inputs would have slots is the call that has
  // made the next slots.
  for (std::size_t at = delivered_; at < needed_; ++at) {
    const SavedName& name = slots_[at].name;
    if (name.info != &info || name.is_output || name.node != slots_[delivered_].name.node) return;
    if (name.index >= inputs.size() || !inputs[name.index]->defined()) return;
    if (inputs[name.index]->impl().requires_grad) return;  // kept, without a slot
  }
  while (delivered_ < needed_) {
    const SavedName& name = slots_[delivered_].name;
    deliver(name, inputs[name.index]);
  }
}

Recomputable::Value Region::value(std::uint32_t slot) {
  const std::scoped_lock lock(mutex_);
  if (!slots_[slot].value.tensor.defined()) recompute();
  if (!slots_[slot].value.tensor.defined())
    refuse_missing(slot, "others");  // the function has caught the error that says so
  return slots_[slot].value;
}

void Region::release_slot(std::uint32_t slot) noexcept {
  const std::scoped_lock lock(mutex_);
  slots_[slot].wanted = false;
  slots_[slot].value = {};
}

void Region::drop_value(std::uint32_t slot) noexcept {
  const std::scoped_lock lock(mutex_);
  slots_[slot].value = {};
}

void Region::drop_values() noexcept {
  const std::scoped_lock lock(mutex_);
  for (Slot& slot : slots_) slot.value = {};
}

// --- scopes

RegionScope::RegionScope(Region& of, bool runs_again) noexcept
    : region(of),
      recomputes(runs_again),
      inside_recomputation(runs_again || (detail::innermost_region != nullptr &&
                                          detail::innermost_region->inside_recomputation)),
      outer(std::exchange(detail::innermost_region, this)) {
  detail::open_region_scopes.fetch_add(1, std::memory_order_relaxed);
}

RegionScope::~RegionScope() {
  detail::open_region_scopes.fetch_sub(1, std::memory_order_relaxed);
  detail::innermost_region = outer;
}

Tensor result_in(RegionScope* scope, const mezzo::detail::Function<Tensor()>& make) {
  if (scope == nullptr) return make().detach();
  Region& region = scope->region;
  if (!scope->recomputes) {
    region.results_.push_back(result_in(scope->outer, make));
    return region.results_.back();
  }
  const std::size_t at = region.results_taken_++;
  return at < region.results_.size() ? region.results_[at] : make().detach();
}

Tensor kept_result(const mezzo::detail::Function<Tensor()>& make) {
  return result_in(current_region(), make);
}

RecomputedValuesScope::RecomputedValuesScope() noexcept : is_outermost_(!progress().in_backward) {}

RecomputedValuesScope::~RecomputedValuesScope() {
  if (!is_outermost_) return;
  std::vector<Ref<Region>>* const regions = recomputed_regions.find();
  if (regions == nullptr || regions->empty()) return;
  const std::vector<Ref<Region>> mine = std::exchange(*regions, {});
  for (const Ref<Region>& region : mine) region->drop_values();
}

}  // namespace mezzo::autograd
