// The parser of the flags --overflow and --underflow, with checks of steps and layer names.
#include "fault.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "mezzo/core/error.h"

namespace scaler_lab {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The kind of fault that the parts of its text name; nothing when they are too few, too many or unknown.
std::optional<FaultKind> kind_of(const std::vector<std::string>& parts, bool underflow) {
  if (underflow) return parts.size() == 2 ? std::optional(FaultKind::underflow) : std::nullopt;
  if (parts.size() == 2) return FaultKind::overflow_forward;
  if (parts.size() != 3) return std::nullopt;
  if (parts[2] == "forward") return FaultKind::overflow_forward;
  if (parts[2] == "backward") return FaultKind::overflow_backward;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::overflow_forward:
      return "overflow forward";
    case FaultKind::overflow_backward:
      return "overflow backward";
    case FaultKind::underflow:
      return "underflow";
  }
  return {};
}

std::string to_string(const Fault& fault) {
  return std::string(to_string(fault.kind)) + " at " + fault.layer;
}

Fault parse_fault(const std::string& text, bool underflow, std::int64_t steps,
                  const std::vector<std::string>& layers) {
  const std::string flag = underflow ? "--underflow" : "--overflow";
  const std::string got = "\"" + text + "\"";
  const std::vector<std::string> parts = split(text, ':');
  const std::vector<std::string> range = split(parts[0], '-');
  const std::optional<FaultKind> kind = kind_of(parts, underflow);
  const std::optional<std::int64_t> first = number(range.front()), last = number(range.back());
  if (!kind || range.size() > 2 || !first || !last) {
    throw mezzo::ValueError("scaler_lab",
                            flag + " STEP[-STEP]:LAYER" + (underflow ? "" : "[:forward or :backward]"), got,
                            underflow ? "for example 80-100:hidden1" : "for example 30:hidden1:backward");
  }
  if (*first < 1 || *first > *last || *last > steps) {
    throw mezzo::ValueError("scaler_lab", flag + " with steps from 1 to " + std::to_string(steps), got,
                            "name steps of the run in rising order, or raise --steps");
  }
  if (std::find(layers.begin(), layers.end(), parts[1]) == layers.end()) {
    std::string names;
    for (const std::string& layer : layers) names += (names.empty() ? "" : ", ") + layer;
    throw mezzo::ValueError("scaler_lab", flag + " with a layer out of " + names, got, "name one of these");
  }
  return {.kind = *kind, .first = *first, .last = *last, .layer = parts[1]};
}

}  // namespace scaler_lab
