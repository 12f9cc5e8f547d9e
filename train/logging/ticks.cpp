// Round numbers for axes.
#include "mezzo/train/logging/ticks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace mezzo::train::detail {

namespace {

/// Up to `digits` significant digits, without zeros at the end and with a short exponent.
std::string digits_text(double value, int digits) {
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits)
          .ptr;
  std::string text(buffer.data(), end);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  // 1e-05 as 1e-5, 1e+20 as 1e20.
  std::string mantissa = text.substr(0, exponent), power = text.substr(exponent + 1);
  const bool negative = power[0] == '-';
  power.erase(0, power.find_first_not_of("+-0"));
  return mantissa + "e" + (negative ? "-" : "") + power;
}

}  // namespace

Range padded(Range values, bool log_scale) {
  constexpr double kRoom = 0.05;
  if (log_scale) {
    double low = std::log10(values.low), high = std::log10(values.high);
    if (!(high - low > 1e-9)) {
      low -= 0.5;
      high += 0.5;
    }
    const double room = (high - low) * kRoom;
    return {std::max(std::pow(10, low - room), 1e-307), std::min(std::pow(10, high + room), 1e307)};
  }
  // Halves, as the difference of two large numbers may be infinite.
  const double half = values.high / 2 - values.low / 2;
  const double size = std::max(std::abs(values.low), std::abs(values.high));
  if (!(half > size * 1e-12)) {
    const double room = size > 0 ? size * 0.1 : 1;
    return {values.low - room, values.high + room};
  }
  return {values.low - 2 * half * kRoom, values.high + 2 * half * kRoom};
}

std::vector<double> linear_ticks(Range range, int wanted) {
  const double raw = range.high / wanted - range.low / wanted;
  if (!(raw > 0) || !std::isfinite(raw)) return {};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = power * 10;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= raw * 0.75) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(range.low / step), last = std::floor(range.high / step);
  for (double i = first; i <= last && ticks.size() < 50; ++i) {
    // Not the product, where the step is below 1: 3 * 0.1 is not 0.3.
    const double value = step < 1 ? i / std::round(1 / step) : i * step;
    ticks.push_back(step < 1 && 1 / step > 1e15 ? i * step : value);
  }
  return ticks;
}

std::vector<double> log_ticks(Range range, int wanted) {
  const auto first = static_cast<int>(std::ceil(std::log10(range.low) - 1e-9));
  const auto last = static_cast<int>(std::floor(std::log10(range.high) + 1e-9));
  std::vector<double> ticks;
  const int every = std::max(1, (last - first + wanted) / wanted);
  for (int power = first; power <= last; power += every) ticks.push_back(std::pow(10, power));
  if (ticks.size() >= 2) return ticks;
  ticks.clear();
  for (int power = first - 1; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if (value >= range.low && value <= range.high) ticks.push_back(value);
    }
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(range, wanted);
}

std::string tick_text(double value) {
  constexpr int kDigits = 4;
  const double size = std::abs(value);
  if (value == 0) return "0";
  if (size >= 1e4 && size < 1e15) {
    constexpr std::array<std::pair<double, const char*>, 4> kPrefixes{
        {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
    for (const auto& [factor, prefix] : kPrefixes) {
      if (size >= factor) return digits_text(value / factor, kDigits) + prefix;
    }
  }
  return digits_text(value, kDigits);
}

}  // namespace mezzo::train::detail
