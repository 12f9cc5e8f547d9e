// The table of spellings, and the translation of a golden's call by it: arguments are renamed, values are
// replaced, and nulls are left out.
#include "golden/names.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "golden/case_file.h"
#include "mezzo/autograd/registry.h"

namespace mezzo::golden {

namespace {

struct Rename {
  std::string_view from, to;
};
/// An empty `op` means that only arguments are called otherwise.
struct Spelling {
  std::string_view golden;
  std::string_view op;
  std::vector<Rename> attrs;
};

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> table{
      {"div_rounding", "div", {}},
      {"tril", "", {{"k", "diagonal"}}},
      {"triu", "", {{"k", "diagonal"}}},
      {"triplet_margin_loss", "", {{"norm_p", "p"}}},
      {"dropout_mask", "dropout", {}},
      {"one_hot", "", {{"n", "num_classes"}}},
      {"RNNCell_tanh", "rnn_tanh_cell", {}},
      {"RNNCell_relu", "rnn_relu_cell", {}},
      // What PyTorch's layers call in its lists of autocast.
      {"_thnn_fused_gru_cell", "gru_sequence", {}},
      {"_thnn_fused_lstm_cell", "lstm_sequence", {}},
      {"rnn_tanh_cell", "rnn_tanh_sequence", {}},
      {"rnn_relu_cell", "rnn_relu_sequence", {}},
  };
  return table;
}

struct Replacement {
  std::string_view op, attr;
  Value from, to;
};
/// Values that mezzo writes otherwise.
const std::vector<Replacement>& replacements() {
  static const std::vector<Replacement> table{
      {"norm", "p", "fro", 2.0},  // of a tensor taken as one vector both are the same
  };
  return table;
}

const Spelling* spelling_of(std::string_view golden_op) {
  const auto& table = spellings();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Spelling& s) { return s.golden == golden_op; });
  return found == table.end() ? nullptr : &*found;
}

std::string_view mezzo_name(const Spelling* spelling, std::string_view golden_op) {
  return spelling == nullptr || spelling->op.empty() ? golden_op : spelling->op;
}

std::string renamed(const Spelling* spelling, const std::string& arg) {
  if (spelling == nullptr) return arg;
  for (const Rename& rename : spelling->attrs) {
    if (rename.from == arg) return std::string(rename.to);
  }
  return arg;
}

Value replaced(std::string_view op, std::string_view attr, const Value& value) {
  for (const Replacement& r : replacements()) {
    if (r.op == op && r.attr == attr && r.from == value) return r.to;
  }
  return value;
}

}  // namespace

Call translate(std::string_view golden_op, const Value& args) {
  const Spelling* spelling = spelling_of(golden_op);
  Call call;
  call.op = mezzo_name(spelling, golden_op);
  const RegistryEntry* entry = find_op(call.op);
  if (entry == nullptr) throw NotSupported("op " + call.op);
  const Value known = entry->default_attrs();
  call.attrs = Value(Value::Map{});
  for (const auto& [name, value] : args.as_map()) {
    const std::string attr = renamed(spelling, name);
    if (!value.is_null())
      call.attrs.set(attr, replaced(call.op, attr, value));
    else if (!known.contains(attr))
      call.absent.push_back(name);
  }
  return call;
}

std::vector<std::string> golden_names(std::string_view op) {
  std::vector<std::string> names{std::string(op)};
  for (const Spelling& spelling : spellings()) {
    if (spelling.op == op) names.emplace_back(spelling.golden);
  }
  return names;
}

Dims dims_of(const Value& value) {
  if (value.is_int()) return {value.as_int()};
  Dims dims;
  for (const Value& dim : value.as_list()) dims.push_back(dim.as_int());
  return dims;
}

}  // namespace mezzo::golden
