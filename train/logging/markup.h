// Text and numbers in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::train::detail {

/// For content and quoted attributes: & < > " ' as entities; what is no UTF-8 and what XML cannot hold become
/// U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);
/// JSON text for within a document: < > & as \u003c and so on, so that nothing in it ends it.
[[nodiscard]] std::string json_in_markup(std::string_view json);
/// A coordinate with one decimal: "12.5", "7".
void append_coordinate(std::string& out, double value);
/// 1764063092.5 as "2025-11-25 09:31:32 UTC".
[[nodiscard]] std::string time_text(double seconds);

}  // namespace mezzo::train::detail
