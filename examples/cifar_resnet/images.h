// Images that a program makes itself, in the form of CIFAR-10: for cifar_resnet without files.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "mezzo/data/example.h"
#include "mezzo/data/random.h"
#include "mezzo/mezzo.h"

namespace examples {

/// Stripes in two colours on noise. The class says how they run, in steps of 36 degrees, and how wide they
/// are; colours and places are of each image's own: u8 [3, 32, 32].
struct Stripes {
  std::int64_t count;
  std::uint64_t seed;

  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] mezzo::data::Example get(std::int64_t index) const {
    mezzo::data::Random random(seed, 0, static_cast<std::uint64_t>(index));
    const std::int64_t label = random.integer(10);
    const double angle = static_cast<double>(label % 5) * std::numbers::pi / 5;
    const double frequency = label < 5 ? 0.7 : 1.2, phase = random.uniform(0, 2 * std::numbers::pi);
    double mean[3], swing[3];
    for (int c = 0; c < 3; ++c) {
      mean[c] = random.uniform(90, 165);
      swing[c] = random.uniform(20, 50) * (random.bernoulli(0.5) ? 1 : -1);
    }
    std::vector<std::uint8_t> pixels;
    pixels.reserve(3 * 32 * 32);
    for (int c = 0; c < 3; ++c) {
      for (int i = 0; i < 32 * 32; ++i) {
        const double along = (i % 32) * std::cos(angle) + (i / 32) * std::sin(angle);
        const double wave = std::sin(frequency * along + phase);
        pixels.push_back(static_cast<std::uint8_t>(mean[c] + swing[c] * wave + random.uniform(-40, 40)));
      }
    }
    return {mezzo::tensor(pixels, {3, 32, 32}, {.dtype = mezzo::DType::u8}), mezzo::tensor(label)};
  }
};

}  // namespace examples
