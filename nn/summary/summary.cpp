// The run behind a summary: in evaluation mode, without recording, with the random state restored afterwards.
// A recorder observes module calls and ops, and counts each op for the module that runs it.
#include "mezzo/nn/summary.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "mezzo/autograd/op_observer.h"
#include "mezzo/core/error.h"
#include "mezzo/core/text/text_table.h"
#include "mezzo/nn/module/evaluation.h"
#include "mezzo/nn/summary/mult_adds.h"

namespace mezzo::nn {

namespace {

std::int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * size_of(tensor.dtype()); }

bool has_parameters(const Module& module) {
  const auto slots = module.param_slots();
  return std::any_of(slots.begin(), slots.end(), [](const Param* slot) { return slot->defined(); });
}

/// Makes the rows, and fills in what runs.
class Recorder final : public CallObserver, public OpObserver {
 public:
  Recorder(const Module& net, SummaryExtension* extension) : extension_(extension) {
    add_rows(net, {.type = net.type_name()});
    open_.push_back({nullptr, 0});
    calls_.emplace(*this);
    ops_.emplace(this);
  }

  void enter(const Module& module) override {
    if (CallObserver* const outer = calls_->outer()) outer->enter(module);
    const std::optional<std::size_t> place = place_of(module);
    open_.push_back(
        {&module, place.value_or(open_.back().row)});  // ops of modules in no slot belong to the caller
    if (place) ++result_.rows[*place].calls;
  }

  void leave(const Module& module, const Tensor* output) override {
    if (CallObserver* const outer = calls_->outer()) outer->leave(module, output);
    if (open_.back().module != &module) return;  // another observer was told of its beginning, and has ended
    if (output != nullptr && places_.contains(&module)) note_output(open_.back().row, *output);
    open_.pop_back();
  }

  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override {
    if (OpObserver* const outer = ops_->outer()) outer->ran(info, inputs, run_dtype, outputs);
    const std::size_t row = open_.back().row;
    if (const std::optional<std::int64_t> count = mult_adds(info, inputs, outputs)) {
      result_.rows[row].mult_adds += *count;
      result_.mult_adds += *count;
    } else {
      note_uncounted(std::string(info.name.value));
    }
    if (extension_ != nullptr) extension_->ran(row, info, inputs, run_dtype, outputs);
  }

  /// `output`: what the run returned.
  [[nodiscard]] Summary finish(const Tensor& output) {
    ops_.reset();
    calls_.reset();
    SummaryRow& root = result_.rows.front();
    if (root.calls == 0) {
      root.calls = 1;
      note_output(0, output);
    }
    if (extension_ != nullptr) {
      result_.extra_titles = extension_->titles();
      for (std::size_t i = 0; i < result_.rows.size(); ++i)
        result_.extra.push_back(extension_->cells(result_.rows, i));
    }
    return std::move(result_);
  }

 private:
  struct Open {
    const Module* module;  // nullptr: whatever calls the model
    std::size_t row;
  };

  void add_rows(const Module& module, SummaryRow row) {
    const std::size_t index = result_.rows.size();
    std::vector<std::size_t>& places = places_[&module];
    places.push_back(index);
    if (places.size() > 1) row.first = places.front();
    for (const ChildSlot* slot : module.child_slots()) row.has_children |= slot->module() != nullptr;
    if (!row.first) count_parameters(module, row);
    keeps_output_.push_back(!row.has_children && has_parameters(module));
    result_.rows.push_back(row);
    if (row.first) return;
    for (const ChildSlot* slot : module.child_slots()) {
      if (slot->module() == nullptr) continue;
      add_rows(*slot->module(), {.depth = row.depth + 1,
                                 .path = row.path.empty() ? slot->name() : row.path + "." + slot->name(),
                                 .name = slot->name(),
                                 .type = slot->module()->type_name()});
    }
  }

  void count_parameters(const Module& module, SummaryRow& row) {
    for (const Param* slot : module.param_slots()) {
      if (!slot->defined() || !counted_.insert(&slot->get().impl()).second) continue;
      const std::int64_t elements = slot->get().numel();
      row.parameters += elements;
      row.trainable += slot->get().requires_grad() ? elements : 0;
      result_.parameter_bytes += bytes_of(*slot);
    }
    result_.parameters += row.parameters;
    result_.trainable += row.trainable;
  }

  /// The row of a call: a row below the module that runs, if there is one, and of several rows the one called
  /// least.
  [[nodiscard]] std::optional<std::size_t> place_of(const Module& module) const {
    const auto found = places_.find(&module);
    if (found == places_.end()) return std::nullopt;
    const std::vector<std::size_t>& places = found->second;
    if (places.size() == 1) return places.front();
    const std::size_t begin = open_.back().row, end = detail::summary_end(result_.rows, begin);
    const auto rank = [&](std::size_t row) {
      return std::pair(row < begin || row >= end, result_.rows[row].calls);
    };
    return *std::min_element(places.begin(), places.end(),
                             [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  }

  void note_output(std::size_t index, const Tensor& output) {
    if (!output.defined()) return;
    SummaryRow& row = result_.rows[index];
    if (keeps_output_[index]) result_.forward_bytes += bytes_of(output);
    if (row.output_shape) return;
    row.output_shape = output.shape();
    row.output_dtype = output.dtype();
  }

  void note_uncounted(std::string op) {
    std::vector<std::string>& list = result_.uncounted;
    if (std::find(list.begin(), list.end(), op) == list.end()) list.push_back(std::move(op));
  }

  Summary result_;
  SummaryExtension* extension_;
  std::unordered_map<const Module*, std::vector<std::size_t>> places_;  // rows
  std::unordered_set<const TensorImpl*> counted_;
  std::vector<bool> keeps_output_;          // of each row: see Summary::forward_bytes
  std::vector<Open> open_;                  // the calls that run
  std::optional<CallObserverGuard> calls_;  // who watched before goes on watching
  std::optional<OpObserverGuard> ops_;
};

}  // namespace

std::vector<SummaryColumn> default_columns() {
  return {SummaryColumn::output_shape, SummaryColumn::parameters, SummaryColumn::mult_adds};
}

std::size_t detail::summary_end(const std::vector<SummaryRow>& rows, std::size_t row) {
  std::size_t end = row + 1;
  while (end < rows.size() && rows[end].depth > rows[row].depth) ++end;
  return end;
}

Summary detail::summarize(Module& net, const SummaryRun& run, const SummaryOptions& options,
                          SummaryExtension* extension) {
  if (options.depth < 0) {
    throw ValueError("summary", "a depth of at least 0", std::to_string(options.depth),
                     "0 prints the model's own row, 1 its children's too");
  }
  Recorder recorder(net, extension);
  Tensor output;
  {
    const Evaluation evaluation(net);
    output = run.run();
  }
  Summary result = recorder.finish(output);
  result.input_bytes = run.input_bytes;
  result.depth = options.depth;
  result.columns = options.columns;
  return result;
}

Tensor detail::summary_input(const Module& net, const Shape& shape, const SummaryOptions& options) {
  TensorOptions made;
  if (const NamedTensors parameters = net.named_parameters(); !parameters.empty())
    made = options_of(parameters.front().second);
  made.requires_grad = false;
  made.dtype = options.dtype.value_or(made.dtype);
  made.device = options.device.value_or(made.device);
  return zeros(shape, made);
}

std::int64_t detail::summary_input_bytes(const Tensor& x) {
  if (x.defined()) return bytes_of(x);
  throw ValueError("summary", "a tensor as input", "an undefined one", "or give the shape of an input");
}

// --- summaries as text: the tree, the cells of the columns, and the totals

namespace {

constexpr const char* kNothing = "--";

bool is_number(SummaryColumn column) {
  return column == SummaryColumn::parameters || column == SummaryColumn::mult_adds ||
         column == SummaryColumn::calls;
}

/// By SummaryColumn.
constexpr std::array kTitles{"Output Shape", "Output DType", "Param #", "Trainable", "Mult-Adds", "Calls"};

std::string number(std::int64_t value) { return value == 0 ? kNothing : grouped(value); }

std::string cell(const Summary& summary, std::size_t row, SummaryColumn column) {
  const std::vector<SummaryRow>& rows = summary.rows;
  /// The sum over a row and all below it.
  const auto whole = [&](std::size_t top, std::int64_t SummaryRow::*count) {
    std::int64_t sum = 0;
    for (std::size_t i = top; i < detail::summary_end(rows, top); ++i) sum += rows[i].*count;
    return sum;
  };
  /// The number that the row shows: see SummaryColumn.
  const auto shown = [&](std::int64_t SummaryRow::*count) {
    return rows[row].depth < summary.depth ? rows[row].*count : whole(row, count);
  };
  const auto or_nothing = [&](const auto& output) -> std::string {
    if (output) return to_string(*output);
    return whole(row, &SummaryRow::calls) > 0 ? kNothing : "not called";
  };
  const std::size_t place = rows[row].first.value_or(row);
  switch (column) {
    case SummaryColumn::output_shape:
      return or_nothing(rows[row].output_shape);
    case SummaryColumn::output_dtype:
      return or_nothing(rows[row].output_dtype);
    case SummaryColumn::parameters: {
      if (rows[row].first) return whole(place, &SummaryRow::parameters) > 0 ? "(recursive)" : kNothing;
      const std::string text = number(shown(&SummaryRow::parameters));
      return text != kNothing && shown(&SummaryRow::trainable) == 0 ? "(" + text + ")" : text;
    }
    case SummaryColumn::trainable: {
      const std::int64_t all = whole(place, &SummaryRow::parameters);
      const std::int64_t trained = whole(place, &SummaryRow::trainable);
      if (all == 0) return kNothing;
      return trained == all ? "true" : trained == 0 ? "false" : "partial";
    }
    case SummaryColumn::mult_adds:
      return number(shown(&SummaryRow::mult_adds));
    case SummaryColumn::calls:
      break;
  }
  return grouped(rows[row].calls);
}

/// The tree before a row and its name. `is_last`: of their parents' children, for the row before and what is
/// above it.
std::string label(const std::vector<SummaryRow>& rows, std::size_t row, std::vector<bool>& is_last) {
  const auto depth = static_cast<std::size_t>(rows[row].depth);
  const std::size_t next = detail::summary_end(rows, row);
  is_last.resize(depth + 1);
  is_last[depth] = next == rows.size() || rows[next].depth < rows[row].depth;
  std::string text;
  for (std::size_t level = 1; level < depth; ++level) text += is_last[level] ? "     " : "│    ";
  if (depth > 0) text += is_last[depth] ? "└─" : "├─";
  text += rows[row].type;
  return depth == 0 ? text : text + " (" + rows[row].name + ")";
}

TextTable table_of(const Summary& summary) {
  std::vector<TextTable::Column> columns{{"Layer (type (name))"}};
  for (const SummaryColumn column : summary.columns)
    columns.push_back({kTitles[static_cast<std::size_t>(column)], is_number(column)});
  for (const std::string& title : summary.extra_titles) columns.push_back({title});
  TextTable table(columns);
  std::vector<bool> is_last;
  for (std::size_t i = 0; i < summary.rows.size(); ++i) {
    if (summary.rows[i].depth > summary.depth) continue;
    std::vector<std::string> line{label(summary.rows, i, is_last)};
    for (const SummaryColumn column : summary.columns) line.push_back(cell(summary, i, column));
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
