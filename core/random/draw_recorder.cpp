// Random sequences, numbered in the order in which they are made, so that a recorder knows which are older
// than itself; and the recorder of each thread.
#include "mezzo/core/random/draw_recorder.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "mezzo/core/memory/rare_scopes.h"
#include "mezzo/core/parallel/hold_over_fork.h"

namespace mezzo {

namespace detail {

namespace {

std::atomic<std::uint64_t> sequences_made{0};
constinit std::mutex mutex_of_states;
[[maybe_unused]] const int states_held_over_fork =
    hold_over_fork([]() -> std::mutex& { return mutex_of_states; });
constinit RareScopes<DrawRecorderScope> recorder_scopes;

}  // namespace

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
    : recorder_(recorder), last_number_(sequences_made.load(std::memory_order_relaxed)) {
  recorder_scopes.begin(*this);
}

DrawRecorderScope::~DrawRecorderScope() { recorder_scopes.end(*this); }

DrawRecorder* DrawRecorderScope::recorder_of(const Sequence& sequence) noexcept {
  const DrawRecorderScope* const newest =
      recorder_scopes.find([](const DrawRecorderScope&) noexcept { return true; });
  return newest != nullptr && sequence.number() <= newest->last_number_ ? &newest->recorder_ : nullptr;
}

DrawRecorder* DrawRecorderScope::outer_recorder_of(const Sequence& sequence) const noexcept {
  bool is_outer = false;
  const DrawRecorderScope* const outer = recorder_scopes.find([&](const DrawRecorderScope& scope) noexcept {
    return std::exchange(is_outer, is_outer || &scope == this);
  });
  return outer != nullptr && sequence.number() <= outer->last_number_ ? &outer->recorder_ : nullptr;
}

}  // namespace detail

}  // namespace mezzo
