// What a sweep found and what it covered. Checks report here and never assert themselves, so that the tests
// of the sweep can run it on a broken op and expect it to speak up.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::sweep {

/// The checks, in the order in which they run.
enum class Check : std::uint8_t {
  gradient,
  second_gradient,
  strided,
  memory_format,
  empty,
  zero_dim,
  broadcast,
  f32,
  low_precision,
  integers,
  float8,
  autocast,
  ignored_types,
  explicit_dtype,
  reference,
  history,
  inputs_kept,
  host_reads,
  bad_input,
  instruction_sets,
  devices,
};
inline constexpr std::array<std::string_view, 21> kCheckNames{
    "gradient", "second_gradient", "strided",       "memory_format",  "empty",
    "zero_dim", "broadcast",       "f32",           "low_precision",  "integers",
    "float8",   "autocast",        "ignored_types", "explicit_dtype", "reference",
    "history",  "inputs_kept",     "host_reads",    "bad_input",      "instruction_sets",
    "devices"};

[[nodiscard]] constexpr std::string_view name_of(Check check) {
  return kCheckNames[static_cast<std::size_t>(check)];
}

/// One failure: which check, of which op and call, and what differed.
struct Finding {
  Check check;
  std::string text;
};

class Findings {
 public:
  /// A check has been made, whatever came out.
  void ran(Check check) { ++counts_[static_cast<std::size_t>(check)]; }
  void fail(Check check, std::string text) { failures_.push_back({check, std::move(text)}); }
  /// Something that prints but does not fail: an opt-out, a refusal that is legal.
  void note(std::string text) { notes_.push_back(std::move(text)); }

  [[nodiscard]] const std::vector<Finding>& failures() const noexcept { return failures_; }
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
  [[nodiscard]] std::int64_t count(Check check) const { return counts_[static_cast<std::size_t>(check)]; }
  [[nodiscard]] bool has_failed(Check check) const {
    for (const Finding& finding : failures_) {
      if (finding.check == check) return true;
    }
    return false;
  }
  /// Adds another sweep's findings to these.
  void merge(const Findings& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    failures_.insert(failures_.end(), other.failures_.begin(), other.failures_.end());
    notes_.insert(notes_.end(), other.notes_.begin(), other.notes_.end());
  }

 private:
  std::array<std::int64_t, kCheckNames.size()> counts_{};
  std::vector<Finding> failures_;
  std::vector<std::string> notes_;
};

}  // namespace mezzo::sweep
