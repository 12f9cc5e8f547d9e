// What tabular does to a table before a network sees it, and the table that it makes where there is no file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"

namespace examples {

/// Houses: `price` follows from size, rooms, town, age (missing in some rows) and noise; `segment` tells
/// cheap from dear ones within each town. The table has one of these two, as each follows from the other:
/// `target`, else `price`.
inline mezzo::data::Table made_houses(std::int64_t rows, std::uint64_t seed, const std::string& target) {
  using namespace mezzo::data;
  const char* const towns[] = {"Ashton", "Berwick", "Colne"};
  Column size{.name = "size"}, rooms{.name = "rooms", .type = ColumnType::i64}, age{.name = "age"};
  Column town{.name = "town", .type = ColumnType::text}, price{.name = "price"};
  Column segment{.name = "segment", .type = ColumnType::text};
  const auto add = [](Column& column, const std::string& text) {
    column.bytes += text;
    column.ends.push_back(column.bytes.size());
  };
  Random random(seed);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double area = random.uniform(40, 200), years = random.uniform(0, 100);
    const std::int64_t place = random.integer(3), count = 1 + random.integer(6);
    const double per_metre = 2 + static_cast<double>(place) - 0.02 * std::abs(years - 50);
    const double value = area * per_metre + 15 * static_cast<double>(count) + 30 * random.normal();
    size.reals.push_back(area);
    rooms.integers.push_back(count);
    age.reals.push_back(random.bernoulli(0.02) ? std::numeric_limits<double>::quiet_NaN() : years);
    add(town, towns[place]);
    price.reals.push_back(value);
    add(segment, value > 120 * (2 + static_cast<double>(place)) ? "dear" : "cheap");
  }
  return Table({size, rooms, age, town, target == "segment" ? segment : price});
}

/// A table as tensors. Every fifth row is held out.
struct Encoded {
  mezzo::Tensor inputs;              ///< f32 [rows, features]
  mezzo::Tensor targets;             ///< i64 [rows] of classes; else f32 [rows, 1] of mean 0 and variance 1
  std::vector<std::string> classes;  ///< empty: regression
  std::vector<std::int64_t> learned, held_out;
};

/// Numbers [rows, 1] with mean 0 and variance 1 in the rows that are learned; missing ones become 0.
inline mezzo::Tensor standardized(const mezzo::Tensor& column, const std::vector<std::int64_t>& learned) {
  using namespace mezzo;
  const Tensor known = column.index_select(0, tensor(learned)), there = known == known;
  const Tensor count = there.to(DType::f64).sum(), zero = zeros({}, {.dtype = DType::f64});
  const Tensor mean = where(there, known, zero).sum() / count;
  const Tensor spread = (where(there, known - mean, zero).square().sum() / count).sqrt();
  const Tensor scaled = (column - mean) / where(spread > 0, spread, ones({}, {.dtype = DType::f64}));
  return where(column == column, scaled, zero).to(DType::f32);
}

/// Text becomes one column of 0 and 1 per value, numbers are standardized. The target is one of classes if it
/// is text or has at most ten different whole numbers. Throws: ValueError for a column that is not there, no
/// other columns, fewer than ten rows, and a target that is missing in a row.
inline Encoded encoded(const mezzo::data::Table& table, const std::string& target,
                       const std::vector<std::string>& leave_out) {
  using namespace mezzo;
  const data::Column& aim = table.column(target);
  if (table.rows() < 10)
    throw ValueError("tabular", "a table of at least 10 rows", std::to_string(table.rows()), "give more");
  Encoded result;
  for (std::int64_t i = 0; i < table.rows(); ++i)
    (i % 5 == 4 ? result.held_out : result.learned).push_back(i);
  std::vector<Tensor> inputs;
  for (const data::Column& column : table.columns()) {
    if (column.name == target || std::ranges::count(leave_out, column.name) > 0) continue;
    if (column.type == data::ColumnType::text) {
      const data::Categories values = table.categories(column.name);
      inputs.push_back((values.codes.unsqueeze(1) == arange(static_cast<std::int64_t>(values.names.size())))
                           .to(DType::f32));
    } else {
      inputs.push_back(standardized(table.tensor({column.name}, {.dtype = DType::f64}), result.learned));
    }
  }
  if (inputs.empty()) throw ValueError("tabular", "columns beside '" + target + "'", "none", "add some");
  result.inputs = cat(inputs, 1);
  const bool is_number = aim.type == data::ColumnType::f64;
  const data::Categories values = is_number ? data::Categories{} : table.categories(target);
  if (!is_number && (aim.type == data::ColumnType::text || values.names.size() <= 10)) {
    result.targets = values.codes;
    result.classes = values.names;
  } else {
    result.targets = table.tensor({target}, {.dtype = DType::f64});
  }
  const Tensor there = result.classes.empty() ? result.targets == result.targets : result.targets >= 0;
  if (!there.all().item<bool>())
    throw ValueError("tabular", "a value of '" + target + "' in every row", "missing ones",
                     "remove these rows");
  if (result.classes.empty()) result.targets = standardized(result.targets, result.learned);
  return result;
}

}  // namespace examples
