// The plot of a run, as an SVG file without any dependency.
#pragma once

#include <string>
#include <vector>

#include "lab.h"

namespace scaler_lab {

/// Loss above scale (log2 axis) over the steps. A skipped step is a group of class "skip", a stretch of steps
/// with an underflow one of class "underflow"; their titles, which browsers show under the mouse, say what
/// happened.
[[nodiscard]] std::string plot(const std::vector<Row>& rows);

}  // namespace scaler_lab
