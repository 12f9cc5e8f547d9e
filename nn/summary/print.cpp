// Summaries as text: the tree, the cells of the columns, and the totals.
#include <array>
#include <ostream>

#include "mezzo/core/text/text_table.h"
#include "mezzo/nn/summary.h"

namespace mezzo::nn {

namespace {

constexpr const char* kNothing = "--";

bool is_number(SummaryColumn column) {
  return column == SummaryColumn::parameters || column == SummaryColumn::mult_adds ||
         column == SummaryColumn::calls;
}

/// By SummaryColumn.
constexpr std::array kTitles{"Output Shape", "Output DType", "Param #", "Trainable", "Mult-Adds", "Calls"};

/// Turns rows into cells.
class Cells {
 public:
  explicit Cells(const Summary& summary) : summary_(summary), rows_(summary.rows) {}

  [[nodiscard]] std::string cell(std::size_t row, SummaryColumn column) const {
    switch (column) {
      case SummaryColumn::output_shape:
        return rows_[row].output_shape ? to_string(*rows_[row].output_shape) : without_output(row);
      case SummaryColumn::output_dtype:
        return rows_[row].output_dtype ? to_string(*rows_[row].output_dtype) : without_output(row);
      case SummaryColumn::parameters:
        return parameters(row);
      case SummaryColumn::trainable:
        return trainable(row);
      case SummaryColumn::mult_adds:
        return number(shown(row, &SummaryRow::mult_adds));
      case SummaryColumn::calls:
        break;
    }
    return grouped(rows_[row].calls);
  }

 private:
  static std::string number(std::int64_t value) { return value == 0 ? kNothing : grouped(value); }

  /// The sum over a row and all below it.
  [[nodiscard]] std::int64_t whole(std::size_t row, std::int64_t SummaryRow::*count) const {
    std::int64_t sum = 0;
    for (std::size_t i = row; i < detail::summary_end(rows_, row); ++i) sum += rows_[i].*count;
    return sum;
  }
  /// The number that a row shows: see SummaryColumn.
  [[nodiscard]] std::int64_t shown(std::size_t row, std::int64_t SummaryRow::*count) const {
    return rows_[row].depth < summary_.depth ? rows_[row].*count : whole(row, count);
  }

  [[nodiscard]] std::string without_output(std::size_t row) const {
    return whole(row, &SummaryRow::calls) > 0 ? kNothing : "not called";
  }

  [[nodiscard]] std::string parameters(std::size_t row) const {
    if (rows_[row].first)
      return whole(*rows_[row].first, &SummaryRow::parameters) > 0 ? "(recursive)" : kNothing;
    const std::string text = number(shown(row, &SummaryRow::parameters));
    return text != kNothing && shown(row, &SummaryRow::trainable) == 0 ? "(" + text + ")" : text;
  }

  [[nodiscard]] std::string trainable(std::size_t row) const {
    const std::size_t place = rows_[row].first.value_or(row);
    const std::int64_t all = whole(place, &SummaryRow::parameters);
    const std::int64_t trained = whole(place, &SummaryRow::trainable);
    if (all == 0) return kNothing;
    return trained == all ? "true" : trained == 0 ? "false" : "partial";
  }

  const Summary& summary_;
  const std::vector<SummaryRow>& rows_;
};

/// Writes the tree before the rows; asked for row after row.
class Tree {
 public:
  explicit Tree(const std::vector<SummaryRow>& rows) : rows_(rows) {}

  [[nodiscard]] std::string label(std::size_t row) {
    const auto depth = static_cast<std::size_t>(rows_[row].depth);
    const std::size_t next = detail::summary_end(rows_, row);
    is_last_.resize(depth + 1);
    is_last_[depth] = next == rows_.size() || rows_[next].depth < rows_[row].depth;
    std::string text;
    for (std::size_t level = 1; level < depth; ++level) text += is_last_[level] ? "     " : "│    ";
    if (depth > 0) text += is_last_[depth] ? "└─" : "├─";
    text += rows_[row].type;
    return depth == 0 ? text : text + " (" + rows_[row].name + ")";
  }

 private:
  const std::vector<SummaryRow>& rows_;
  std::vector<bool> is_last_;  // of its parent's children, for the row before and what is above it
};

TextTable table_of(const Summary& summary) {
  std::vector<TextTable::Column> columns{{"Layer (type (name))"}};
  for (const SummaryColumn column : summary.columns)
    columns.push_back({kTitles[static_cast<std::size_t>(column)], is_number(column)});
  for (const std::string& title : summary.extra_titles) columns.push_back({title});
  TextTable table(columns);
  const Cells cells(summary);
  Tree tree(summary.rows);
  for (std::size_t i = 0; i < summary.rows.size(); ++i) {
    if (summary.rows[i].depth > summary.depth) continue;
    std::vector<std::string> line{tree.label(i)};
    for (const SummaryColumn column : summary.columns) line.push_back(cells.cell(i, column));
    if (!summary.extra.empty()) line.insert(line.end(), summary.extra[i].begin(), summary.extra[i].end());
    table.add(line);
  }
  return table;
}

std::string totals_of(const Summary& summary, const std::string& divider) {
  std::string without;
  for (const std::string& op : summary.uncounted) without += (without.empty() ? " (without " : ", ") + op;
  if (!without.empty()) without += ")";
  const std::int64_t passes = 2 * summary.forward_bytes;
  std::string text = "Total params: " + grouped(summary.parameters) +
                     "\nTrainable params: " + grouped(summary.trainable) +
                     "\nNon-trainable params: " + grouped(summary.parameters - summary.trainable) +
                     "\nTotal mult-adds: " + grouped(summary.mult_adds) + without + "\n" + divider;
  if (summary.input_bytes) text += "Input size: " + bytes_text(*summary.input_bytes) + "\n";
  return text + "Forward/backward pass size: " + bytes_text(passes) +
         "\nParams size: " + bytes_text(summary.parameter_bytes) + "\nEstimated total size: " +
         bytes_text(summary.input_bytes.value_or(0) + passes + summary.parameter_bytes) + "\n";
}

}  // namespace

std::string to_string(const Summary& summary) {
  const TextTable table = table_of(summary);
  std::string text = table.text() + table.divider() + totals_of(summary, table.divider()) + table.divider();
  text.pop_back();
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Summary& summary) {
  return stream << to_string(summary) << '\n';
}

}  // namespace mezzo::nn
