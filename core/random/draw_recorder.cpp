// Random sequences, numbered in the order in which they are made, so that a recorder knows which are older
// than itself; and the recorder of each thread.
#include "mezzo/core/random/draw_recorder.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "mezzo/core/memory/per_thread.h"
#include "mezzo/core/memory/scope_list.h"
#include "mezzo/core/parallel/hold_over_fork.h"

namespace mezzo {

namespace detail {

namespace {

std::atomic<std::uint64_t> sequences_made{0};
constinit std::mutex mutex_of_states;
[[maybe_unused]] const int states_held_over_fork =
    hold_over_fork([]() -> std::mutex& { return mutex_of_states; });

}  // namespace

/// The recorders of each thread. Rarely are there any, so no thread-local memory is spent on them.
struct DrawRecorders {
  using Entry = DrawRecorderScope::Entry;
  static inline constinit PerThread<ScopeList<Entry>> of_threads;

  /// The one that receives draws from `sequence` where `scope` is the newest; nullptr: none.
  static DrawRecorder* of(const Scope<Entry>* scope, const Sequence& sequence) noexcept {
    return scope != nullptr && sequence.number() <= scope->value.last_number ? scope->value.recorder
                                                                             : nullptr;
  }
};

Sequence::Sequence(const GeneratorState& start) : state_(start), number_(++sequences_made) {}

GeneratorState Sequence::state() const {
  const std::scoped_lock lock(mutex_of_states);
  return state_;
}

void Sequence::set_state(const GeneratorState& state) {
  const std::scoped_lock lock(mutex_of_states);
  state_ = state;
}

GeneratorState Sequence::advance(std::uint64_t blocks) {
  const std::scoped_lock lock(mutex_of_states);
  return std::exchange(state_, {state_.seed, state_.offset + blocks});
}

DrawRecorderScope::DrawRecorderScope(DrawRecorder& recorder)
    : scope_{.own = {&recorder, sequences_made.load(std::memory_order_relaxed)}} {
  DrawRecorders::of_threads.get().push(scope_);
}

DrawRecorderScope::~DrawRecorderScope() { DrawRecorders::of_threads.get().pop(scope_); }

DrawRecorder* DrawRecorderScope::recorder_of(const Sequence& sequence) noexcept {
  auto* const recorders = DrawRecorders::of_threads.find();
  return recorders != nullptr ? DrawRecorders::of(recorders->newest(), sequence) : nullptr;
}

DrawRecorder* DrawRecorderScope::outer_recorder_of(const Sequence& sequence) const noexcept {
  return DrawRecorders::of(scope_.older, sequence);
}

}  // namespace detail

}  // namespace mezzo
