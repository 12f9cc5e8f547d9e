// Which Recording a thread's work belongs to, and what happens on the host around each replay.
#include "mezzo/core/replay/recording.h"

#include <mutex>

#include "mezzo/core/error.h"
#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/memory/scope_list.h"

namespace mezzo::detail {

namespace {

// Rarely is there any, so no thread-local memory is spent on them.
constinit PerThread<ScopeList<Recording*>> recording_scopes;

/// All recordings there are. The mutex guards their lists of storages: any thread may free one.
struct Recordings {
  std::mutex mutex;
  std::vector<Recording*> all;
};
Recordings& recordings() {
  static auto* const made = new Recordings;  // tensors in static objects are freed after everything else
  return *made;
}

}  // namespace

Recording::Recording(Device device) : device_(device) {
  const std::scoped_lock lock(recordings().mutex);
  recordings().all.push_back(this);
}

Recording::~Recording() {
  const std::scoped_lock lock(recordings().mutex);
  std::erase(recordings().all, this);
}

RecordingScope::RecordingScope(Recording& recording) : scope_{.own = &recording} {
  recording_scopes.get().push(scope_);
}
RecordingScope::~RecordingScope() { recording_scopes.get().pop(scope_); }

Recording* Recording::of(Device device) noexcept {
  auto* const recordings = recording_scopes.find();
  const Scope<Recording*>* scope = recordings != nullptr ? recordings->newest() : nullptr;
  while (scope != nullptr && scope->value->device_ != device) scope = scope->older;
  return scope != nullptr ? scope->value : nullptr;
}

ReplayedState* Recording::find(const void* key) const noexcept {
  for (const auto& [owner, state] : states_) {
    if (owner == key) return state.get();
  }
  return nullptr;
}

void Recording::note(Storage& storage, bool made) {
  const std::scoped_lock lock(recordings().mutex);
  written_.emplace(&storage, made);
  storage.recorded_ = true;
}

bool Recording::has_written(Storage& storage) const {
  const std::scoped_lock lock(recordings().mutex);
  return written_.contains(&storage);
}

void Recording::hold(const Ref<Storage>& storage) {
  {
    const std::scoped_lock lock(recordings().mutex);
    const auto found = written_.find(storage.get());
    if (found != written_.end() && found->second) return;
  }
  held_.push_back(storage);
}

void Recording::forget(Storage& storage) noexcept {
  const std::scoped_lock lock(recordings().mutex);
  for (Recording* const recording : recordings().all) recording->written_.erase(&storage);
}

void Recording::finish() {
  for (const auto& [key, state] : states_) state->recorded();
}

void Recording::before_replay() {
  for (const auto& [key, state] : states_) state->before_replay();
}

void Recording::after_replay() noexcept {
  {
    const std::scoped_lock lock(recordings().mutex);
    Recording* const outer = of(device_);  // a replay that is recorded itself
    for (const auto& [storage, made] : written_) {
      storage->version_.add_acq_rel(1);
      if (outer != nullptr) outer->written_.emplace(storage, false);
    }
  }
  for (const auto& [key, state] : states_) state->after_replay();
}

void Recording::note_in_thread(Storage& storage, bool made) {
  if (Recording* const recording = of(storage.device())) recording->note(storage, made);
}

void refuse_replay(const char* expected, const char* got) {
  throw StateError("Graph.replay", expected, got, "make a new CapturedStep, which records the step anew");
}

}  // namespace mezzo::detail

namespace mezzo {

void Storage::note_made() { detail::Recording::note_in_thread(*this, true); }
void Storage::note_write() { detail::Recording::note_in_thread(*this, false); }
void Storage::note_freed() noexcept { detail::Recording::forget(*this); }

}  // namespace mezzo
