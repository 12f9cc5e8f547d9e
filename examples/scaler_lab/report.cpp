// Which steps the table shows, the summary below it, and the same rows as CSV and as a Value. A NaN loss
// is printed without a sign.
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace scaler_lab {

namespace {

bool has_zeros(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.zeros.has_value(); });
}

bool is_shown(const std::vector<Row>& rows, std::size_t i, std::int64_t every) {
  if (i == 0 || i + 1 == rows.size() || rows[i].step % every == 0) return true;
  const Row &before = rows[i - 1], &row = rows[i], &after = rows[i + 1];
  return before.skipped || row.skipped || before.injected != row.injected || after.injected != row.injected;
}

/// A NaN has no sign that means anything.
double unsigned_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string percent(const ZeroShares& zeros) {
  return fmt::format("{:.1f} % ({:.1f} %)", 100 * zeros.scaled, 100 * zeros.unscaled);
}

const char* direction(const Row& row) { return row.first->in_backward ? "backward" : "forward"; }

}  // namespace

std::string op_text(const Row& row) {
  if (!row.first) return {};
  const std::string place = row.first->place.empty() ? "outside of the network" : row.first->place;
  return row.first->op + ", " + direction(row) + ", " + place;
}

std::string table(const std::vector<Row>& rows, std::int64_t every) {
  const bool zeros = has_zeros(rows);
  const auto line = [&](const std::string& step, const std::string& loss, const std::string& scale,
                        const char* skipped, const std::string& share, const std::string& parameter,
                        const std::string& op) {
    std::string text = fmt::format("{:>6} {:>9} {:>12}  {:7}  ", step, loss, scale, skipped);
    if (zeros) text += fmt::format("{:16}  ", share);
    text += fmt::format("{:17}  {}", parameter, op);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text =
      line("step ", "loss", "scale", "skipped", "zero gradients", "first parameter", "first op");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!is_shown(rows, i, every)) continue;
    const Row& row = rows[i];
    text += line(std::to_string(row.step) + (row.injected.empty() ? " " : "*"),
                 fmt::format("{:.4f}", unsigned_nan(row.loss)), fmt::format("{:.12g}", row.scale),
                 row.skipped ? "yes" : "", row.zeros ? percent(*row.zeros) : "", row.parameter, op_text(row));
  }
  return text;
}

std::string summary(const std::vector<Row>& rows) {
  const auto skipped = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.skipped; });
  const auto [low, high] = std::minmax_element(rows.begin(), rows.end(),
                                               [](const Row& a, const Row& b) { return a.scale < b.scale; });
  std::string text =
      fmt::format("{} of {} steps skipped; scale between {:.12g} and {:.12g}, at the end {:.12g}\n", skipped,
                  rows.size(), low->scale, high->scale, rows.back().scale);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.injected.empty(); }))
    text += "*: a fault was injected\n";
  if (skipped > 0) {
    text +=
        "first parameter: the one whose gradient backward makes first\n"
        "first op: in time, found by running the skipped step again\n";
  }
  if (has_zeros(rows)) {
    text +=
        "zero gradients: their share in f16, where an underflow was injected (in brackets: the same step "
        "with "
        "scale 1)\n";
  }
  return text;
}

std::string csv(const std::vector<Row>& rows) {
  std::string text =
      "step,loss,scale,skipped,first_parameter,first_op,direction,place,injected,zero_share,"
      "zero_share_at_scale_1\n";
  for (const Row& row : rows) {
    text += fmt::format("{},{:.9g},{},{},{},", row.step, unsigned_nan(row.loss), row.scale,
                        row.skipped ? 1 : 0, row.parameter);
    text += row.first ? fmt::format("{},{},{},", row.first->op, direction(row), row.first->place) : ",,,";
    text += row.injected + ",";
    text += row.zeros ? fmt::format("{:.6g},{:.6g}\n", row.zeros->scaled, row.zeros->unscaled) : ",\n";
  }
  return text;
}

mezzo::Value to_value(const std::vector<Row>& rows) {
  mezzo::Value all = mezzo::Value::List{};
  for (const Row& row : rows) {
    mezzo::Value::Map one = {{"step", row.step},
                             {"loss", row.loss},
                             {"scale", row.scale},
                             {"skipped", row.skipped},
                             {"injected", row.injected}};
    if (row.skipped) one.emplace_back("first_parameter", row.parameter);
    if (row.first) {
      one.emplace_back("first_op", row.first->op);
      one.emplace_back("direction", direction(row));
      one.emplace_back("place", row.first->place);
    }
    if (row.zeros) {
      one.emplace_back("zero_share", row.zeros->scaled);
      one.emplace_back("zero_share_at_scale_1", row.zeros->unscaled);
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace scaler_lab
