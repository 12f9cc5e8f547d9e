// How long a training runs and how often something happens in it, in the unit that suits: "2ep", "500ba",
// "1e6tok".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/core/value.h"

namespace mezzo::train {

/// The unit that progress is counted in. A batch is one step of the optimizer, whatever it was accumulated
/// from; an iteration is a number of epochs or tokens that the training names
/// (TrainerOptions::iteration_length); duration is the share of the whole training that is done.
enum class TimeUnit : std::uint8_t { iteration, epoch, batch, sample, token, duration, second };

/// "ep": as in time strings.
[[nodiscard]] std::string_view to_string(TimeUnit unit);

/// An amount in a unit.
class Time {
 public:
  constexpr Time(double value, TimeUnit unit) noexcept : value_(value), unit_(unit) {}
  /// Epochs.
  constexpr Time(int epochs) noexcept : Time(epochs, TimeUnit::epoch) {}
  /// A number and a unit in upper or lower case, "10ep", "3e4tok", "0.5dur"; or a time of a clock, "1h30m",
  /// "90s", "2d12h", in seconds. Throws: ValueError for other texts, and for a number that is not finite,
  /// below 0, or not whole in a unit other than dur.
  Time(std::string_view text);
  Time(const char* text) : Time(std::string_view(text)) {}
  Time(const std::string& text) : Time(std::string_view(text)) {}

  [[nodiscard]] constexpr double value() const noexcept { return value_; }
  [[nodiscard]] constexpr TimeUnit unit() const noexcept { return unit_; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return value_ == 0; }

  // Throw: ValueError for two units.
  friend bool operator<(const Time& a, const Time& b) { return a.value_in_unit_of(b) < b.value_; }
  friend bool operator>=(const Time& a, const Time& b) { return !(a < b); }
  friend bool operator==(const Time& a, const Time& b) { return a.value_in_unit_of(b) == b.value_; }
  friend Time operator+(const Time& a, const Time& b) { return {a.value_in_unit_of(b) + b.value_, b.unit_}; }

 private:
  [[nodiscard]] double value_in_unit_of(const Time& other) const;

  double value_;
  TimeUnit unit_;
};

/// "10ep".
[[nodiscard]] std::string to_string(const Time& time);

/// Whole intervals in an amount of the interval's unit. Shares of a duration count as the decimal numbers
/// that they were written as: 3/10 of a training has three times "0.1dur", though 0.3 / 0.1 is below 3 in
/// binary.
[[nodiscard]] double whole_intervals(const Time& interval, double amount);
/// Whether an amount that was `before` has reached or passed a multiple of the interval by `now`, in its
/// unit.
[[nodiscard]] bool is_due(const Time& interval, double before, double now);

/// How far a training is, in all units at once.
struct Timestamp {
  std::int64_t iteration = 0, epoch = 0, batch = 0, sample = 0, token = 0;
  std::int64_t epoch_in_iteration = 0, token_in_iteration = 0;
  std::int64_t batch_in_epoch = 0, sample_in_epoch = 0, token_in_epoch = 0;
  double seconds = 0;  ///< in fit(), evaluations and earlier processes included

  /// The amount in this unit. Throws: ValueError for duration, which needs the whole (Trainer::state()).
  [[nodiscard]] Time get(TimeUnit unit) const;
  /// Epochs or tokens of the iteration.
  [[nodiscard]] Time get_in_iteration(TimeUnit unit) const;
  /// One more batch of the epoch and of all.
  void add_batch(std::int64_t samples, std::int64_t tokens);
  void end_epoch();
  void end_iteration();

  /// For checkpoints.
  [[nodiscard]] Value state_dict() const;
  /// Throws: ValueError for a missing or bad value; nothing has changed then.
  void load_state_dict(const Value& state);
};

}  // namespace mezzo::train
