// Groups series by name and sorts the groups.
#include "mezzo/train/logging/report_charts.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mezzo::train::detail {

namespace {

constexpr std::array<std::string_view, 7> kDataNames{"train",      "training", "val", "valid",
                                                     "validation", "test",     "eval"};

bool is_data_name(std::string_view text) {
  return std::find(kDataNames.begin(), kDataNames.end(), text) != kDataNames.end();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// "loss" of "val_loss" and "loss_val".
std::string_view without_data_name(std::string_view part) {
  const std::size_t first = part.find('_'), last = part.rfind('_');
  if (first != std::string_view::npos && is_data_name(part.substr(0, first))) return part.substr(first + 1);
  if (last != std::string_view::npos && is_data_name(part.substr(last + 1))) return part.substr(0, last);
  return part;
}

/// What comes first in a report.
int rank_of(std::string_view name) {
  const std::string_view part = last_part(name);
  if (part == "loss") return 0;
  if (part == "lr" || part == "learning_rate") return 2;
  if (contains(part, "scale")) return 3;
  if (contains(part, "grad_norm")) return 4;
  if (contains(part, "per_second")) return 5;
  return is_bytes(part) ? 6 : 1;
}

}  // namespace

std::string chart_name(std::string_view series) {
  std::string name;
  for (std::string_view rest = series;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (!is_data_name(part)) {
      if (!name.empty()) name += '/';
      name += without_data_name(part);
    }
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return name.empty() ? std::string(series) : name;
}

bool is_bytes(std::string_view series) {
  const std::string_view part = last_part(series);
  return contains(part, "memory") || (part.size() >= 5 && part.substr(part.size() - 5) == "bytes");
}

std::vector<Chart> report_charts(const RunHistory& history, const std::vector<std::string>& log_scale) {
  std::vector<Chart> charts;
  for (const RunHistory::Series& series : history.series()) {
    if (is_skip_flag(series.name) || is_skip_count(series.name)) continue;
    const std::string name = chart_name(series.name);
    auto chart =
        std::find_if(charts.begin(), charts.end(), [&](const Chart& other) { return other.title == name; });
    if (chart == charts.end()) {
      Chart made;
      made.title = name;
      made.bytes = is_bytes(name);
      chart = charts.insert(charts.end(), std::move(made));
    }
    chart->lines.push_back({series.name, &series.points});
    const auto is_named = [&](const std::string& wanted) { return wanted == name || wanted == series.name; };
    chart->log_scale = chart->log_scale || std::any_of(log_scale.begin(), log_scale.end(), is_named);
  }
  std::stable_sort(charts.begin(), charts.end(),
                   [](const Chart& a, const Chart& b) { return rank_of(a.title) < rank_of(b.title); });
  const auto skipped =
      std::find_if(history.series().begin(), history.series().end(),
                   [](const RunHistory::Series& series) { return is_skip_flag(series.name); });
  if (skipped == history.series().end() || charts.empty()) return charts;
  auto marked = std::find_if(charts.begin(), charts.end(),
                             [](const Chart& chart) { return rank_of(chart.title) == 3; });
  if (marked == charts.end()) marked = charts.begin();
  marked->marks = &skipped->points;
  marked->marks_name = "skipped step";
  return charts;
}

}  // namespace mezzo::train::detail
