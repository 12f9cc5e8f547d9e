// CSV: the cells are those that a reader of one state after the other finds, and a table that is written and
// read again is the same. The first byte of the input chooses options.
#include <cmath>
#include <cstdlib>
#include <map>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/csv.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using data::Column;
using data::ColumnType;
using CsvRows = std::vector<std::vector<std::string>>;

/// The fields of all rows; `good` is false for quotes that do not close or have text behind them.
struct PlainCsv {
  CsvRows rows = {};
  bool good = true;
};

PlainCsv plain_csv(std::string_view text, char delimiter) {
  enum class State { begin, plain, quoted, quote } state = State::begin;
  PlainCsv csv;
  std::vector<std::string> row;
  std::string field;
  bool row_open = false;  // a row has begun
  const auto end_row = [&] {
    row.push_back(field);
    csv.rows.push_back(row);
    row.clear();
    field.clear();
    row_open = false;
    state = State::begin;
  };
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_break = c == '\n' || c == '\r';
    if (state == State::quoted) {
      if (c == '"')
        state = State::quote;
      else
        field.push_back(c);
    } else if (state == State::quote && c == '"') {
      field.push_back(c);
      state = State::quoted;
    } else if (is_break) {
      if (row_open) end_row();
    } else if (c == delimiter) {
      row.push_back(field);
      field.clear();
      row_open = true;
      state = State::begin;
    } else if (state == State::quote) {
      csv.good = false;
      return csv;
    } else if (state == State::begin && c == '"') {
      row_open = true;
      state = State::quoted;
    } else {
      field.push_back(c);
      row_open = true;
      state = State::plain;
    }
  }
  if (state == State::quoted)
    csv.good = false;
  else if (row_open)
    end_row();
  return csv;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool same_real(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

void check_cell(const Column& column, std::size_t row, const std::string& cell,
                const data::CsvOptions& options) {
  static const std::map<std::string, int> bools{{"True", 1},  {"TRUE", 1},  {"true", 1},
                                                {"False", 0}, {"FALSE", 0}, {"false", 0}};
  const std::string text = trimmed(cell);
  bool is_missing = false;
  for (const std::string& missing : options.missing) is_missing = is_missing || missing == text;
  if (column.type == ColumnType::text) {
    require(column.text(row) == (is_missing ? "" : cell), "a text is the field");
  } else if (column.type == ColumnType::i64) {
    const std::int64_t wanted = is_missing             ? options.fill_value.value_or(0)
                                : bools.contains(text) ? bools.at(text)
                                                       : std::strtoll(text.c_str(), nullptr, 10);
    require(!is_missing || options.fill_value.has_value(), "a missing integer is filled");
    require(column.integers[row] == wanted, "an integer is what strtoll reads");
  } else {
    char* end = nullptr;
    const bool is_bool = bools.contains(text);
    const double wanted = is_missing ? std::nan("")
                          : is_bool  ? bools.at(text)
                                     : std::strtod(text.c_str(), &end);
    require(is_missing || is_bool || *end == '\0', "a number is one to strtod");
    require(same_real(column.reals[row], wanted), "a number is what strtod reads");
  }
}

/// The table as CSV, all fields in quotes.
std::string csv_of(const data::Table& table) {
  const auto quoted = [](std::string_view text) {
    std::string field = "\"";
    for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
    return field + "\"";
  };
  std::string text;
  for (const Column& column : table.columns())
    text += (&column == &table.columns()[0] ? "" : ",") + quoted(column.name);
  text += "\n";
  for (std::size_t row = 0; row < static_cast<std::size_t>(table.rows()); ++row) {
    for (const Column& column : table.columns()) {
      if (&column != &table.columns()[0]) text += ",";
      text += column.type == ColumnType::text  ? quoted(column.text(row))
              : column.type == ColumnType::i64 ? std::to_string(column.integers[row])
                                               : number_text(column.reals[row]);
    }
    text += "\n";
  }
  return text;
}

void check_again(const data::Table& table) {
  const std::string text = csv_of(table);
  const MemoryFile file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  data::CsvOptions options{.missing = {}};
  for (const Column& column : table.columns()) options.dtypes.emplace_back(column.name, column.type);
  const data::Table again = data::read_csv(file.path(), options);
  require(again.names() == table.names() && again.rows() == table.rows(),
          "what is written has the same columns");
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    const Column &a = table.columns()[c], &b = again.columns()[c];
    require(a.integers == b.integers && a.bytes == b.bytes && a.ends == b.ends,
            "what is written reads back equal");
    for (std::size_t i = 0; i < a.reals.size(); ++i)
      require(same_real(a.reals[i], b.reals[i]), "numbers that are written read back equal");
  }
}

}  // namespace

int fuzz_csv(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  data::CsvOptions options{.delimiter = (data[0] & 1U) != 0 ? ';' : ',', .header = (data[0] & 2U) == 0};
  if ((data[0] & 4U) != 0) options.fill_value = -7;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const MemoryFile file(data + 1, size - 1);
  const PlainCsv plain = plain_csv(text, options.delimiter);
  try {
    const data::Table table = data::read_csv(file.path(), options);
    require(plain.good, "a table that is accepted has sound quotes");
    const std::size_t first = options.header ? 1 : 0;
    require(static_cast<std::size_t>(table.rows()) + first == plain.rows.size(), "there are as many rows");
    for (std::size_t row = first; row < plain.rows.size(); ++row) {
      require(plain.rows[row].size() == table.columns().size(), "all rows are as long");
      for (std::size_t c = 0; c < table.columns().size(); ++c)
        check_cell(table.columns()[c], row - first, plain.rows[row][c], options);
    }
    for (const Column& column : table.columns()) static_cast<void>(table.categories(column.name));
    check_again(table);
  } catch (const Error& error) {
    require(std::string(error.what()).size() < 2000, "a message is short");
  }
  return 0;
}

}  // namespace mezzo::fuzz
