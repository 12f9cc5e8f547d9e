// Which values of a run share a chart, and in which order charts stand in a report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mezzo/train/logging/chart.h"
#include "mezzo/train/logging/run_history.h"

namespace mezzo::train::detail {

/// The name without what says which data it is of: "loss" of "val_loss" and "train/loss".
[[nodiscard]] std::string chart_name(std::string_view series);
/// Whether a value of this name is a number of bytes.
[[nodiscard]] bool is_bytes(std::string_view series);
/// The charts of a report; they point into the history.
[[nodiscard]] std::vector<Chart> report_charts(const RunHistory& history,
                                               const std::vector<std::string>& log_scale);

}  // namespace mezzo::train::detail
