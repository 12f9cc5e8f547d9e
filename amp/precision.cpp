// The names of the precision modes, read in upper or lower case and with their old spellings, and the
// explanation of why a mode leaves norms alone.
#include "mezzo/amp/precision.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::amp {

namespace {

constexpr std::array kPrecisions{Precision::fp32, Precision::fp16, Precision::amp_fp16, Precision::amp_bf16,
                                 Precision::amp_fp8};
constexpr std::array<std::pair<std::string_view, Precision>, 2> kOldNames{
    {{"amp", Precision::amp_fp16}, {"bf16", Precision::amp_bf16}}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace

std::string to_string(Precision precision) {
  constexpr std::array<const char*, kPrecisions.size()> kNames{"fp32", "fp16", "amp_fp16", "amp_bf16",
                                                               "amp_fp8"};
  return kNames[static_cast<std::size_t>(precision)];
}

Precision precision_from_string(std::string_view name) {
  const std::string wanted = lower(name);
  for (const Precision precision : kPrecisions) {
    if (wanted == to_string(precision)) return precision;
  }
  for (const auto& [old, precision] : kOldNames) {
    if (wanted == old) return precision;
  }
  std::string names;
  for (const Precision precision : kPrecisions) names += (names.empty() ? "" : ", ") + to_string(precision);
  throw ValueError("precision", "one of " + names + " (or their old names amp, bf16)",
                   "\"" + std::string(name) + "\"", "choose one of them");
}

bool NormPrecision::acts() const noexcept {
  return !value_ || (*value_ != Precision::fp32 && *value_ != Precision::fp16);
}

std::string NormPrecision::why_not() const {
  if (acts()) return {};
  return *value_ == Precision::fp32
             ? "precision fp32 has no effect: without autocast norms run in f32, as their input"
             : "precision fp16 has no effect: the whole model was converted, so its norms run in f16 already";
}

}  // namespace mezzo::amp
