// The text of a progress bar, apart from where it is written.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::train::detail {

struct Progress {
  std::int64_t step = 0, total = 0;  ///< total 0: unknown
  double rate = 0;                   ///< steps per second; NaN: unknown
  double elapsed = 0;                ///< seconds
  std::string unit = "steps";
  std::vector<std::pair<std::string, double>> values;
};
struct ProgressStyle {
  int columns = 80;
  bool bar = true, unicode = true, colour = false;
};

/// One line of at most `columns` columns, without its end: first the share done and the count, then what
/// there is room for of rate, time, values and bar, in this order of importance.
[[nodiscard]] std::string progress_line(const Progress& progress, const ProgressStyle& style);

/// 75 as "1:15", 3671 as "1:01:11".
[[nodiscard]] std::string duration_text(double seconds);
/// About four digits: 0.12345678 as "0.1235", 65536 as "65536", 73561.5 as "73.56k", 1.5e-7 as "1.5e-07".
[[nodiscard]] std::string short_number(double value);

}  // namespace mezzo::train::detail
