// The recorder behind a trace. It observes ops and autocast's casts, and counts each cast in the row of the
// op that it was made for. The report is written as a table and as a Value.
#include "mezzo/amp/trace.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "mezzo/amp/detail/cast_log.h"
#include "mezzo/amp/policy.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op_observer.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/core/text/text_table.h"

namespace mezzo::amp {

namespace {

CastCounts& operator+=(CastCounts& sum, const CastCounts& more) {
  sum.casts += more.casts;
  sum.bytes += more.bytes;
  sum.weights += more.weights;
  sum.spared += more.spared;
  sum.spared_bytes += more.spared_bytes;
  return sum;
}

std::int64_t bytes_of_cast(const Tensor& from, DType to) {
  return from.numel() * (size_of(from.dtype()) + size_of(to));
}

bool is_cast(const OpInfo& info) { return info.name.value == "to_dtype"; }

template <class List>
std::vector<DType> dtypes_of(const List& tensors) {
  std::vector<DType> dtypes;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) dtypes.push_back(tensor.dtype());
  }
  return dtypes;
}

void count_call(TraceRow& row, Inputs inputs, const Outputs& outputs) {
  ++row.calls;
  TraceDTypes call{dtypes_of(inputs), dtypes_of(outputs), 1};
  for (TraceDTypes& known : row.dtypes) {
    if (known.inputs != call.inputs || known.outputs != call.outputs) continue;
    ++known.calls;
    return;
  }
  row.dtypes.push_back(std::move(call));
}

std::string name_of(Category policy) {
  return std::string(kEnumNames<Category>[static_cast<std::size_t>(policy)]);
}

/// Each dtype once, in the order of the first: "f16 f32".
std::string text_of(const std::vector<DType>& dtypes) {
  std::string text;
  for (auto at = dtypes.begin(); at != dtypes.end(); ++at) {
    if (std::find(dtypes.begin(), at, *at) == at) text += (text.empty() ? "" : " ") + to_string(*at);
  }
  return text.empty() ? "--" : text;
}

std::string text_of(const TraceRow& row) {
  // Calls that differ only in how many inputs have a dtype read the same.
  std::vector<std::pair<std::string, std::int64_t>> kinds;
  for (const TraceDTypes& dtypes : row.dtypes) {
    std::string kind = text_of(dtypes.inputs) + " -> " + text_of(dtypes.outputs);
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& known) { return known.first == kind; });
    if (same == kinds.end())
      kinds.emplace_back(std::move(kind), dtypes.calls);
    else
      same->second += dtypes.calls;
  }
  std::string text;
  for (const auto& [kind, calls] : kinds) {
    text += (text.empty() ? "" : ", ") + kind;
    if (kinds.size() > 1) text += " (" + grouped(calls) + ")";
  }
  return text;
}

std::string number(std::int64_t value) { return value == 0 ? "--" : grouped(value); }

void add_counts(Value::Map& map, const CastCounts& counts) {
  map.emplace_back("casts", counts.casts);
  map.emplace_back("cast_bytes", counts.bytes);
  map.emplace_back("weights", counts.weights);
  map.emplace_back("spared", counts.spared);
  map.emplace_back("spared_bytes", counts.spared_bytes);
}

Value names_of(const std::vector<DType>& dtypes) {
  Value::List names;
  for (const DType dtype : dtypes) names.emplace_back(to_string(dtype));
  return names;
}

Value value_of(const TraceRow& row) {
  Value::List dtypes;
  for (const TraceDTypes& one : row.dtypes) {
    dtypes.emplace_back(Value::Map{
        {"inputs", names_of(one.inputs)}, {"outputs", names_of(one.outputs)}, {"calls", one.calls}});
  }
  Value::Map map{{"op", row.op},
                 {"in_backward", row.in_backward},
                 {"policy", row.policy ? Value(name_of(*row.policy)) : Value()},
                 {"calls", row.calls},
                 {"dtypes", std::move(dtypes)}};
  add_counts(map, row.casts);
  return map;
}

}  // namespace

CastCounts TraceReport::casts() const {
  CastCounts sum;
  for (const TraceRow& row : rows) sum += row.casts;
  return sum;
}

std::int64_t TraceReport::calls() const {
  std::int64_t sum = 0;
  for (const TraceRow& row : rows) sum += row.calls;
  return sum;
}

Value TraceReport::to_value() const {
  Value::List list;
  for (const TraceRow& row : rows) list.push_back(value_of(row));
  Value::Map map{{"rows", std::move(list)}, {"calls", calls()}};
  add_counts(map, casts());
  return map;
}

std::string to_string(const TraceReport& report) {
  TextTable table({{"Op"},
                   {"In"},
                   {"Policy"},
                   {"Calls", true},
                   {"Dtypes"},
                   {"Casts", true},
                   {"Bytes cast", true},
                   {"Casts spared", true}});
  for (const TraceRow& row : report.rows) {
    table.add({row.op, row.in_backward ? "backward" : "forward", row.policy ? name_of(*row.policy) : "--",
               grouped(row.calls), text_of(row), number(row.casts.casts),
               row.casts.casts == 0 ? "--" : bytes_text(row.casts.bytes), number(row.casts.spared)});
  }
  const CastCounts all = report.casts();
  return table.text() + table.divider() + "Calls: " + grouped(report.calls()) +
         "\nCasts: " + grouped(all.casts) + ", " + bytes_text(all.bytes) + " read and written\n" +
         "Casts of weights that were kept: " + grouped(all.weights) +
         "; spared by them: " + grouped(all.spared) + ", " + bytes_text(all.spared_bytes) + "\n" +
         std::string(table.divider(), 0, table.divider().size() - 1);
}

std::ostream& operator<<(std::ostream& stream, const TraceReport& report) {
  return stream << to_string(report);
}

/// Casts that autocast makes are told one by one before the op they are for, and to_dtype runs in them. The
/// outer observer may end this one, so nothing follows its call.
class Trace::Recorder final : public RefCounted, OpObserver, CastLog {
 public:
  Recorder() {
    log_.emplace(static_cast<CastLog&>(*this));
    ops_.emplace(static_cast<OpObserver*>(this));
  }
  /// Stops observing; a call of the object may still be running.
  void end() noexcept {
    ops_.reset();
    log_.reset();
  }

  void begin_op() noexcept override { pending_ = {}; }  // the op before them may have thrown
  void begin_cast(const Tensor& tensor, DType dtype, bool kept) noexcept override {
    cast_ = {.kept = kept, .bytes = bytes_of_cast(tensor, dtype), .runs = true};
  }
  void end_cast() noexcept override {
    if (cast_.made)
      pending_ += {.casts = 1, .bytes = cast_.bytes, .weights = cast_.kept ? 1 : 0};
    else
      pending_ += {.spared = 1, .spared_bytes = cast_.bytes};
    cast_ = {};
  }

  void ran(const OpInfo& info, Inputs inputs, std::optional<DType> run_dtype,
           const Outputs& outputs) override {
    if (cast_.runs)
      cast_.made = true;
    else
      book(info, inputs, outputs);
    if (OpObserver* const outer = ops_->outer()) outer->ran(info, inputs, run_dtype, outputs);
  }

  [[nodiscard]] TraceReport report() const {
    TraceReport report;
    for (const auto& [key, row] : rows_) report.rows.push_back(row);
    return report;
  }
  void reset() {
    rows_.clear();
    pending_ = {};
  }

 private:
  // In backward, policy (one more than the last for none), name.
  using Key = std::tuple<bool, int, std::string>;
  /// The cast that autocast is making.
  struct Cast {
    bool kept = false;
    std::int64_t bytes = 0;
    bool runs = false;
    bool made = false;
  };

  void book(const OpInfo& info, Inputs inputs, const Outputs& outputs) {
    TraceRow& row = row_of(info);
    count_call(row, inputs, outputs);
    row.casts += std::exchange(pending_, {});
    if (is_cast(info)) row.casts += {.casts = 1, .bytes = bytes_of_cast(inputs[0].get(), outputs[0].dtype())};
  }

  TraceRow& row_of(const OpInfo& info) {
    const bool in_backward = autograd::progress().in_backward;
    std::optional<Category> policy;
    if (input_hook_state().hook != nullptr) policy = effective_category(info);
    if (info.name.value == "linear_f8") policy = Category::lower_precision;  // of the op that it stands for
    const int rank = policy ? static_cast<int>(*policy) : static_cast<int>(Category::passthrough) + 1;
    const auto [found, fresh] = rows_.try_emplace(Key(in_backward, rank, info.name.value));
    if (fresh) {
      found->second.op = info.name.value;
      found->second.in_backward = in_backward;
      found->second.policy = policy;
    }
    return found->second;
  }

  std::map<Key, TraceRow> rows_;
  CastCounts pending_;  // for the op that comes next
  Cast cast_;
  std::optional<CastLogGuard> log_;
  std::optional<OpObserverGuard> ops_;
};

Trace::Trace() : recorder_(make_ref<Recorder>()) {}
Trace::~Trace() { recorder_->end(); }
TraceReport Trace::report() const { return recorder_->report(); }
void Trace::reset() { recorder_->reset(); }

}  // namespace mezzo::amp
