// A recording as a report and as a trace. Internal.
#pragma once

#include <string>

#include "mezzo/profile/recorder.h"
#include "mezzo/profile/report.h"

namespace mezzo::profile {

[[nodiscard]] Report report_of(const Recording& recording);
/// Fills in OpRow::reached.
void add_rates(Report& report);
/// Throws: IoError.
void write_chrome_trace(const Recording& recording, const std::string& path);

}  // namespace mezzo::profile
