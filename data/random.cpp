// Philox blocks whose counter is (block, epoch, position), and what is made of their words.
#include "mezzo/data/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "mezzo/core/error.h"
#include "mezzo/core/random/philox.h"

namespace mezzo::data {

namespace {

/// Added to seeds, so that a program's generators of the same seed give other numbers.
constexpr std::uint64_t kDomain = 0x6d657a7a6f646174U;

}  // namespace

std::uint32_t Random::bits() noexcept {
  if (drawn_ % 4 == 0) {
    const PhiloxBlock counter{{drawn_ / 4, epoch_, static_cast<std::uint32_t>(position_),
                               static_cast<std::uint32_t>(position_ >> 32)}};
    const PhiloxBlock block = Philox()(counter, philox_key(seed_ + kDomain));
    std::copy_n(block.words, 4, block_);
  }
  return block_[drawn_++ % 4];
}

std::uint64_t Random::seed() noexcept {
  const std::uint64_t high = bits();
  return high << 32 | bits();
}

double Random::uniform() noexcept {
  const std::uint32_t high = bits();
  return uniform_f64(high, bits());
}

double Random::uniform(double low, double high) noexcept {
  const double value = low + (high - low) * uniform();
  return value < high ? value : low;  // rounding may have reached `high`
}

std::int64_t Random::integer(std::int64_t bound) {
  if (bound < 1) throw ValueError("Random.integer", "a bound of at least 1", std::to_string(bound), "");
  // Words above the largest multiple of the bound would make small numbers likelier.
  const auto n = static_cast<std::uint64_t>(bound);
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t excess = (most % n + 1) % n;
  std::uint64_t word = seed();
  while (word > most - excess) word = seed();
  return static_cast<std::int64_t>(word % n);
}

double Random::normal() noexcept {  // Box and Muller
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

/// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
double Random::gamma(double shape) noexcept {
  if (shape < 1) {
    const double boost = std::pow(1 - uniform(), 1 / shape);
    return gamma(shape + 1) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log1p(-uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double Random::beta(double a, double b) {
  for (const double parameter : {a, b}) {
    if (!(parameter > 0) || !std::isfinite(parameter)) {
      throw ValueError("Random.beta", "positive, finite parameters",
                       number_text(a) + " and " + number_text(b), "");
    }
  }
  const double x = gamma(a), y = gamma(b);
  return x + y > 0 ? x / (x + y) : 0.5;  // both underflow for tiny parameters
}

}  // namespace mezzo::data
