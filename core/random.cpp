#include "mezzo/core/random.h"

#include <utility>

namespace mezzo {

void Generator::manual_seed(std::uint64_t seed) { set_state({seed, 0}); }

GeneratorState Generator::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

void Generator::set_state(const GeneratorState& state) {
  const std::scoped_lock lock(mutex_);
  state_ = state;
}

GeneratorState Generator::draw(std::uint64_t blocks) {
  const std::scoped_lock lock(mutex_);
  return std::exchange(state_, {state_.seed, state_.offset + blocks});
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace mezzo
