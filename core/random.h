// Where random numbers come from: a seed and a count of the Philox blocks handed out so far. Here and not
// with the ops, because checkpoints, data loaders and dropout share it.
#pragma once

#include <cstdint>
#include <mutex>

namespace mezzo {

/// Everything there is to know about a Generator; enough to continue bit for bit.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< index of the first Philox block not handed out yet
  friend constexpr bool operator==(const GeneratorState& a, const GeneratorState& b) {
    return a.seed == b.seed && a.offset == b.offset;
  }
};

/// Hands out ranges of counters of one random sequence (core/philox.h: key = seed, counter = block index).
/// What is made of a range depends on the range alone, so results are the same on any device and for any
/// number of threads. Members may be called from several threads; who then gets which range depends on who
/// comes first.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) noexcept : state_{seed, 0} {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Starts the sequence of `seed` from its beginning.
  void manual_seed(std::uint64_t seed);
  [[nodiscard]] GeneratorState state() const;
  void set_state(const GeneratorState& state);
  /// Reserves `blocks` blocks of four 32-bit words. They are the ones from the returned state's offset on.
  [[nodiscard]] GeneratorState draw(std::uint64_t blocks);

 private:
  mutable std::mutex mutex_;
  GeneratorState state_;
};

/// The generator that everything uses which is not given one. Its seed is 0 at start: a program that never
/// seeds is reproducible.
[[nodiscard]] Generator& default_generator();
/// Seeds the default generator.
void manual_seed(std::uint64_t seed);

}  // namespace mezzo
