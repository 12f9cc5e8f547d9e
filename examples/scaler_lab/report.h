// The results as text: the table that is printed, CSV, and a Value for JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab.h"

namespace scaler_lab {

/// "mul, forward, Stage 'hidden1'"; empty: nothing was found.
[[nodiscard]] std::string op_text(const Row& row);

/// The table: every `every`-th step, the last one, those that were skipped, and where faults begin and end.
[[nodiscard]] std::string table(const std::vector<Row>& rows, std::int64_t every);

/// What came of it, in a few lines.
[[nodiscard]] std::string summary(const std::vector<Row>& rows);

/// All steps, a line each below a line of names. Numbers that are not finite are nan and inf; what does not
/// apply is empty.
[[nodiscard]] std::string csv(const std::vector<Row>& rows);

/// The same as a list of maps.
[[nodiscard]] mezzo::Value to_value(const std::vector<Row>& rows);

}  // namespace scaler_lab
