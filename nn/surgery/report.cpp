// Surgery, in words: the report as a table, reasons and counts.
#include <algorithm>
#include <functional>
#include <ostream>

#include "mezzo/core/value.h"
#include "mezzo/nn/surgery/operation.h"

namespace mezzo::nn::surgery {

namespace {

using Row = std::vector<std::string>;

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Rows with their columns below each other, as far as texts are not longer than a line has room for.
void add_table(std::string& text, const std::vector<Row>& rows) {
  constexpr std::size_t kWidest = 60;
  Row::size_type columns = 0;
  for (const Row& row : rows) columns = std::max(columns, row.size());
  std::vector<std::size_t> widths(columns, 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], std::min(row[i].size(), kWidest));
  }
  for (const Row& row : rows) {
    text += " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text.append(" ").append(row[i]);
      const bool last = i + 1 == row.size();
      if (!last) text.append(1 + (widths[i] > row[i].size() ? widths[i] - row[i].size() : 0), ' ');
    }
    text += "\n";
  }
}

}  // namespace

bool Report::empty() const noexcept { return replaced_.empty(); }

Decision Decision::keep(std::string why) { return Decision(std::move(why)); }

void Report::add_note(std::string note) { notes_.push_back(std::move(note)); }

std::string detail::subclass_reason(const std::type_info& base) {
  return "is of a class derived from " + nn::detail::type_text(base) +
         ", and what that changes would be lost (Subclasses::replace does it all the same)";
}

std::vector<const Module*> detail::modules_below(const Module& root) {
  std::vector<const Module*> result;
  for (const auto& [path, module] : root.named_modules()) {
    if (module != &root) result.push_back(module);
  }
  return result;
}

std::string to_string(const Report& report) {
  std::string text = report.empty() ? "nothing was replaced\n"
                                    : "replaced " + counted(report.replaced().size(), "module") + "\n";
  std::vector<Row> rows;
  for (const Replaced& replaced : report.replaced())
    rows.push_back({mezzo::detail::listed(replaced.paths, replaced.paths.size(), std::identity()),
                    replaced.before->type_name(), "->", replaced.after->type_name()});
  add_table(text, rows);
  rows.clear();
  if (!report.kept().empty()) text += "kept " + counted(report.kept().size(), "module") + "\n";
  for (const Kept& kept : report.kept())
    rows.push_back({kept.path.empty() ? "(root)" : kept.path, kept.type, kept.why});
  add_table(text, rows);
  for (const std::string& note : report.notes()) text += "note: " + note + "\n";
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Report& report) { return stream << to_string(report); }

}  // namespace mezzo::nn::surgery
