// Time strings and the timestamp of a training.
#include "mezzo/train/time.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::train {

namespace {

struct Unit {
  TimeUnit unit;
  std::string_view name;
  std::int64_t Timestamp::*count;  ///< nullptr: no count
};
constexpr std::array<Unit, 7> kUnits{{{TimeUnit::iteration, "iter", &Timestamp::iteration},
                                      {TimeUnit::epoch, "ep", &Timestamp::epoch},
                                      {TimeUnit::batch, "ba", &Timestamp::batch},
                                      {TimeUnit::sample, "sp", &Timestamp::sample},
                                      {TimeUnit::token, "tok", &Timestamp::token},
                                      {TimeUnit::duration, "dur", nullptr},
                                      {TimeUnit::second, "sec", nullptr}}};

[[noreturn]] void refuse_text(std::string_view text) {
  throw ValueError("Time", "a number from 0 and a unit: iter, ep, ba, sp, tok, dur or sec; or a clock time",
                   "'" + std::string(text) + "'",
                   "write \"3ep\", \"500ba\", \"1e6tok\", \"0.5dur\" or \"1h30m\"");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// "2d12h", "1h30m", "90s": whole numbers of units that become smaller.
std::optional<double> clock_seconds(std::string_view text) {
  constexpr std::array<std::pair<char, double>, 4> kParts{{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  double seconds = 0;
  std::size_t part = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || next == end) return std::nullopt;
    while (part < kParts.size() && kParts[part].first != *next) ++part;
    if (part == kParts.size()) return std::nullopt;
    seconds += number * kParts[part++].second;
    at = next + 1;
  }
  return text.empty() ? std::nullopt : std::optional(seconds);
}

}  // namespace

std::string_view to_string(TimeUnit unit) {
  for (const Unit& named : kUnits) {
    if (named.unit == unit) return named.name;
  }
  return "?";
}

Time::Time(std::string_view text) : value_(0), unit_(TimeUnit::second) {
  const std::string small = lower(text);
  if (const auto seconds = clock_seconds(small)) {
    value_ = *seconds;
    return;
  }
  const char* const end = small.data() + small.size();
  const auto [rest, error] = std::from_chars(small.data(), end, value_);
  if (error != std::errc() || !std::isfinite(value_) || value_ < 0) refuse_text(text);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& named : kUnits) {
    if (named.name != unit) continue;
    unit_ = named.unit;
    if (unit_ != TimeUnit::duration && value_ != std::floor(value_))
      throw ValueError("Time", "a whole number of " + std::string(unit), "'" + std::string(text) + "'",
                       "only dur takes fractions");
    return;
  }
  refuse_text(text);
}

double Time::value_in_unit_of(const Time& other) const {
  if (unit_ != other.unit_)
    throw ValueError("Time", "two times in one unit", to_string(*this) + " and " + to_string(other),
                     "name both in one unit");
  return value_;
}

std::string to_string(const Time& time) {
  return number_text(time.value()) + std::string(to_string(time.unit()));
}

double whole_intervals(const Time& interval, double amount) {
  const double quotient = amount / interval.value(), nearest = std::round(quotient);
  // Four roundings made the quotient of a share; the other units are whole.
  const bool is_share = interval.unit() == TimeUnit::duration;
  return is_share && std::abs(nearest - quotient) <= 0x1p-48 * quotient ? nearest : std::floor(quotient);
}

bool is_due(const Time& interval, double before, double now) {
  return !interval.is_zero() && whole_intervals(interval, now) > whole_intervals(interval, before);
}

Time Timestamp::get(TimeUnit unit) const {
  if (unit == TimeUnit::second) return {seconds, unit};
  for (const Unit& named : kUnits) {
    if (named.unit == unit && named.count != nullptr) return {static_cast<double>(this->*named.count), unit};
  }
  throw ValueError("Timestamp::get", "a unit other than dur", "dur", "ask State::progress() for the share");
}

Time Timestamp::get_in_iteration(TimeUnit unit) const {
  return {static_cast<double>(unit == TimeUnit::token ? token_in_iteration : epoch_in_iteration), unit};
}

void Timestamp::add_batch(std::int64_t samples, std::int64_t tokens) {
  ++batch, ++batch_in_epoch;
  sample += samples, sample_in_epoch += samples;
  token += tokens, token_in_epoch += tokens, token_in_iteration += tokens;
}

void Timestamp::end_epoch() {
  ++epoch, ++epoch_in_iteration;
  batch_in_epoch = sample_in_epoch = token_in_epoch = 0;
}

void Timestamp::end_iteration() {
  ++iteration;
  epoch_in_iteration = token_in_iteration = 0;
}

namespace {

/// Name and member of each count.
constexpr std::array<std::pair<const char*, std::int64_t Timestamp::*>, 10> kCounts{{
    {"iteration", &Timestamp::iteration},
    {"epoch", &Timestamp::epoch},
    {"batch", &Timestamp::batch},
    {"sample", &Timestamp::sample},
    {"token", &Timestamp::token},
    {"epoch_in_iteration", &Timestamp::epoch_in_iteration},
    {"token_in_iteration", &Timestamp::token_in_iteration},
    {"batch_in_epoch", &Timestamp::batch_in_epoch},
    {"sample_in_epoch", &Timestamp::sample_in_epoch},
    {"token_in_epoch", &Timestamp::token_in_epoch},
}};

}  // namespace

Value Timestamp::state_dict() const {
  Value state;
  for (const auto& [name, count] : kCounts) state.set(name, this->*count);
  state.set("seconds", seconds);
  return state;
}

void Timestamp::load_state_dict(const Value& state) {
  Timestamp loaded;
  for (const auto& [name, count] : kCounts)
    loaded.*count = saved_count("Timestamp::load_state_dict", state, name);
  loaded.seconds = state.at("seconds").as_double();
  *this = loaded;
}

}  // namespace mezzo::train
