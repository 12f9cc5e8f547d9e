// Generators draw from their sequence, or hand the draw to the thread's recorder.
#include "mezzo/core/random.h"

#include "mezzo/core/random/draw_recorder.h"

namespace mezzo {

Generator::Generator(std::uint64_t seed) : sequence_(make_ref<detail::Sequence>(GeneratorState{seed, 0})) {}
Generator::~Generator() = default;

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

GeneratorState Generator::state() const { return sequence_->state(); }

void Generator::set_state(const GeneratorState& state) {
  if (detail::DrawRecorder* const recorder = detail::DrawRecorderScope::recorder_of(*sequence_))
    recorder->set_state(*sequence_, state);
  else
    sequence_->set_state(state);
}

GeneratorState Generator::draw(std::uint64_t blocks) { return draw(blocks, Device::cpu()).first; }

RandomRange Generator::draw(std::uint64_t blocks, Device device) {
  if (detail::DrawRecorder* const recorder = detail::DrawRecorderScope::recorder_of(*sequence_))
    return recorder->record(sequence_, blocks, device);
  return {sequence_->advance(blocks)};
}

Generator& default_generator() {
  // Never destroyed: static objects of programs, and threads, may draw until the process ends.
  static auto* const generator = new Generator;
  return *generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace mezzo
