// What char_gpt reads: a file, or sentences that it makes itself, and windows of either.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "mezzo/data/example.h"
#include "mezzo/data/random.h"
#include "mezzo/mezzo.h"

namespace examples {

/// Throws: IoError.
inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open())
    throw mezzo::IoError("char_gpt", "a file that can be read", path, "check --data");
  return text;
}

/// Sentences of one form, of which 2^16 are equally likely: 11.09 nats on 38 characters, so no model comes
/// below 0.292 nats per character.
inline std::string made_text(std::int64_t sentences, std::uint64_t seed) {
  static constexpr const char* kAdjectives[] = {"small", "green", "quiet", "round",
                                                "happy", "tired", "brave", "early"};
  static constexpr const char* kNouns[] = {"horse", "river", "baker", "tiger",
                                           "cloud", "queen", "piano", "stone"};
  static constexpr const char* kVerbs[] = {"sees", "asks", "hits", "pays", "gets", "lets", "owns", "eyes"};
  std::string text;
  mezzo::data::Random random(seed);
  const auto one = [&](const auto& words) { return std::string(words[random.integer(8)]); };
  for (std::int64_t i = 0; i < sentences; ++i) {
    text +=
        (random.bernoulli(0.5) ? "The " : "One ") + one(kAdjectives) + " " + one(kNouns) + " " + one(kVerbs);
    text += " the " + one(kAdjectives) + " " + one(kNouns) + ".\n";
  }
  return text;
}

/// Windows of a text that begin anywhere, as many as lie in it side by side; or those that lie side by side.
/// The target is the window moved on by one.
struct Windows {
  mezzo::Tensor tokens;
  std::int64_t length;
  bool anywhere;

  [[nodiscard]] std::int64_t size() const { return (tokens.numel() - 1) / length; }
  [[nodiscard]] mezzo::data::Example get(std::int64_t index, mezzo::data::Random& random) const {
    const std::int64_t begin = anywhere ? random.integer(tokens.numel() - length) : index * length;
    return {tokens.narrow(0, begin, length), tokens.narrow(0, begin + 1, length)};
  }
};

}  // namespace examples
