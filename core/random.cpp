#include "mezzo/core/random.h"

#include <atomic>
#include <utility>

#include "mezzo/core/draw_recorder.h"
#include "mezzo/core/error.h"

namespace mezzo {

namespace detail {

namespace {

std::atomic<std::uint64_t> sequences_made{0};
constinit thread_local DrawRecorderScope* innermost = nullptr;

}  // namespace

Sequence::Sequence(const GeneratorState& start) : state_(start), number_(++sequences_made) {}

GeneratorState Sequence::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

void Sequence::set_state(const GeneratorState& state) {
  const std::scoped_lock lock(mutex_);
  state_ = state;
}

GeneratorState Sequence::advance(std::uint64_t blocks) {
  const std::scoped_lock lock(mutex_);
  return std::exchange(state_, {state_.seed, state_.offset + blocks});
}

DrawRecorderScope::DrawRecorderScope(DrawRecorder& recorder)
    : recorder_(recorder),
      previous_(std::exchange(innermost, this)),
      last_number_(sequences_made.load(std::memory_order_relaxed)) {}

DrawRecorderScope::~DrawRecorderScope() { innermost = previous_; }

DrawRecorder* DrawRecorderScope::recorder_of(const Sequence& sequence) noexcept {
  return innermost != nullptr && sequence.number() <= innermost->last_number_ ? &innermost->recorder_
                                                                              : nullptr;
}

}  // namespace detail

Generator::Generator(std::uint64_t seed) : sequence_(make_ref<detail::Sequence>(GeneratorState{seed, 0})) {}
Generator::~Generator() = default;

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

GeneratorState Generator::state() const { return sequence_->state(); }

void Generator::set_state(const GeneratorState& state) {
  if (detail::DrawRecorderScope::recorder_of(*sequence_) != nullptr) {
    throw StateError("Generator::set_state", "no step to be recorded on this thread", "one that is",
                     "replays would not seed again: do it before or between calls of the captured step");
  }
  sequence_->set_state(state);
}

GeneratorState Generator::draw(std::uint64_t blocks) { return draw(blocks, Device::cpu()).first; }

RandomRange Generator::draw(std::uint64_t blocks, Device device) {
  if (detail::DrawRecorder* const recorder = detail::DrawRecorderScope::recorder_of(*sequence_))
    return recorder->record(sequence_, blocks, device);
  return {sequence_->advance(blocks)};
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace mezzo
