// Digits that a program draws itself, in the form of MNIST: for examples that are given no files.
#pragma once

#include <cstdint>

#include "mezzo/data/example.h"
#include "mezzo/data/functional.h"
#include "mezzo/data/random.h"
#include "mezzo/mezzo.h"

namespace examples {

/// Digits as those of a pocket calculator, each at a place of its own on noise: u8 [1, 28, 28].
struct DrawnDigits {
  std::int64_t count;
  std::uint64_t seed;

  [[nodiscard]] std::int64_t size() const { return count; }
  [[nodiscard]] mezzo::data::Example get(std::int64_t index) const {
    using namespace mezzo;
    // Strokes: top, upper left, upper right, middle, lower left, lower right, bottom.
    static constexpr const char* kStrokes[] = {"1110111", "0010010", "1011101", "1011011", "0111010",
                                               "1101011", "1101111", "1010010", "1111111", "1111011"};
    static constexpr std::int64_t kBoxes[7][4] = {{0, 0, 2, 10}, {0, 0, 9, 2}, {0, 8, 9, 2},  {8, 0, 2, 10},
                                                  {8, 0, 9, 2},  {8, 8, 9, 2}, {15, 0, 2, 10}};
    data::Random random(seed, 0, static_cast<std::uint64_t>(index));
    const std::int64_t digit = random.integer(10), top = 4 + random.integer(3), left = 8 + random.integer(3);
    Generator generator(random.seed());
    Tensor image = randint(0, 120, {1, 28, 28}, {.dtype = DType::u8}, generator);
    for (std::size_t i = 0; i < 7; ++i) {
      const auto& [row, column, height, width] = kBoxes[i];
      if (kStrokes[digit][i] == '1')
        image = data::erase(image, {top + row, left + column, height, width}, 255);
    }
    return {image, tensor(digit)};
  }
};

}  // namespace examples
