// Where random numbers come from: a seed and a count of the Philox blocks handed out so far. Here and not
// with the ops, because checkpoints, data loaders and dropout share it.
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"
#include "mezzo/core/random/random_range.h"
#include "mezzo/core/ref_counted.h"

namespace mezzo {

namespace detail {
class Sequence;
}

/// Hands out ranges of counters of one random sequence (core/random/philox.h: key = seed, counter = block
/// index). Random numbers made of a range depend on the range alone, so results are the same on any device
/// and for any number of threads. Members may be called from several threads; which thread then gets which
/// range depends on their timing.
///
/// While a thread captures a step (amp::CapturedStep), its draws do not advance the generators: each replay
/// advances them, when it is started. Draws for the host or for another device, and seeding, are then refused
/// with StateError, as they would happen once and not in replays. A generator that the step itself makes
/// gives the same numbers every time, captured or not.
class Generator : detail::NoCopy {
 public:
  explicit Generator(std::uint64_t seed = 0);
  ~Generator();

  /// Starts the sequence of `seed` from its beginning.
  void manual_seed(std::uint64_t seed);
  [[nodiscard]] GeneratorState state() const;
  void set_state(const GeneratorState& state);
  /// Reserves `blocks` blocks of four 32-bit words for the host, and returns the state whose offset is the
  /// first of them.
  [[nodiscard]] GeneratorState draw(std::uint64_t blocks);
  /// Reserves `blocks` blocks for work on `device`; in a captured graph each replay draws anew.
  [[nodiscard]] RandomRange draw(std::uint64_t blocks, Device device);

 private:
  Ref<detail::Sequence> sequence_;
};

/// The generator of all calls that are given none. Its seed is 0 at first: a program that never seeds is
/// reproducible.
[[nodiscard]] Generator& default_generator();
/// Seeds the default generator.
void manual_seed(std::uint64_t seed);

}  // namespace mezzo
