// Random numbers of data loading: each sample has a sequence of its own, so its random numbers do not depend
// on workers, on their number or on other samples' draws.
#pragma once

#include <cstdint>

namespace mezzo::data {

/// The sequence of one sample (or batch) of one epoch. Cheap to make; nothing is computed before the first
/// draw. Data sets and transforms take it by reference: `Tensor get(std::int64_t index, Random& random)
/// const`. For ops that draw: `Generator generator(random.seed());`.
class Random {
 public:
  /// `position`: place in the epoch's order. Of the epoch the lower 32 bits count.
  constexpr Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position) noexcept
      : seed_(seed), position_(position), epoch_(static_cast<std::uint32_t>(epoch)) {}
  explicit constexpr Random(std::uint64_t seed = 0) noexcept : Random(seed, 0, 0) {}

  /// 32 and 64 uniform bits.
  [[nodiscard]] std::uint32_t bits() noexcept;
  [[nodiscard]] std::uint64_t seed() noexcept;
  /// Uniform in [0, 1), of 53 bits, and in [low, high).
  [[nodiscard]] double uniform() noexcept;
  [[nodiscard]] double uniform(double low, double high) noexcept;
  /// Uniform among 0, ..., bound - 1. Throws: ValueError for a bound below 1.
  [[nodiscard]] std::int64_t integer(std::int64_t bound);
  /// True with probability p.
  [[nodiscard]] bool bernoulli(double p) noexcept { return uniform() < p; }
  /// Normal of mean 0 and deviation 1.
  [[nodiscard]] double normal() noexcept;
  /// Beta-distributed, for mixup. Throws: ValueError unless both are positive and finite.
  [[nodiscard]] double beta(double a, double b);

 private:
  [[nodiscard]] double gamma(double shape) noexcept;

  std::uint64_t seed_, position_;
  std::uint32_t epoch_, drawn_ = 0;  ///< drawn_: words so far
  std::uint32_t block_[4] = {};
};

}  // namespace mezzo::data
