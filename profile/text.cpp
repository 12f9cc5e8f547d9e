// A report as tables of text, with times per step, and as a Value.
#include <algorithm>
#include <ostream>
#include <utility>

#include "mezzo/core/text/text_table.h"
#include "mezzo/profile/report.h"

namespace mezzo::profile {

namespace {

constexpr std::size_t kMostOps = 25;
constexpr std::int64_t kModuleDepth = 3;

std::string ms(double seconds) { return fixed_text(seconds * 1e3, 3); }
std::string percent(double part) { return fixed_text(part * 100, 1) + "%"; }
std::string part_of(double part, double whole) { return whole > 0 ? percent(part / whole) : "--"; }
std::string per_step(std::int64_t count, const Report& report) {
  return count % report.steps == 0
             ? grouped(count / report.steps)
             : fixed_text(static_cast<double>(count) / static_cast<double>(report.steps), 1);
}

class Text {
 public:
  explicit Text(const Report& report) : report_(report), steps_(static_cast<double>(report.steps)) {}

  [[nodiscard]] std::string all() const {
    std::string text = head() + "\n" + phases() + "\n" + ops() + "\n" + modules();
    if (!report_.waits.empty()) text += "\n" + waits();
    if (!report_.threads.empty()) text += "\n" + threads();
    text += "\nMost memory in tensors: " + bytes_text(report_.peak_bytes);
    if (!report_.peak_place.empty()) text += ", after " + report_.peak_place;
    return text;
  }

 private:
  [[nodiscard]] std::string head() const {
    const auto count = [](std::int64_t number, const char* noun) {
      return grouped(number) + " " + noun + (number == 1 ? "" : "s");
    };
    std::string text = count(report_.steps, "step") + " on " + mezzo::to_string(report_.device) + ": " +
                       ms(report_.seconds / steps_) + " ms each, from " + ms(report_.shortest) + " to " +
                       ms(report_.longest) + "; the thread ran for " +
                       part_of(report_.cpu_seconds, report_.seconds) + " of it\n";
    if (report_.replays > 0)
      text += count(report_.replays, "replay") +
              " of captured steps; ops are those of one step that ran eagerly\n";
    return text;
  }

  [[nodiscard]] std::string phases() const {
    const bool on_device = !report_.device.is_cpu();
    std::vector<TextTable::Column> columns{{"Phase"}, {"Calls", true}, {"ms", true}, {"Share", true}};
    if (on_device) columns.push_back({"Device ms", true});
    TextTable table(std::move(columns));
    for (const PhaseRow& row : report_.phases) {
      std::vector<std::string> cells{row.phase, row.calls == 0 ? "--" : per_step(row.calls, report_),
                                     ms(row.seconds / steps_), part_of(row.seconds, report_.seconds)};
      if (on_device) cells.push_back(ms(row.device_seconds / steps_));
      table.add(cells);
    }
    return table.text();
  }

  [[nodiscard]] std::string ops() const {
    if (report_.ops.empty()) return "No op ran.\n";
    const bool has_shapes = std::any_of(report_.ops.begin(), report_.ops.end(),
                                        [](const OpRow& row) { return !row.shapes.empty(); });
    std::vector<TextTable::Column> columns{{"Op"},          {"In"},           {"Dtype"},
                                           {"Calls", true}, {"ms", true},     {"us a call", true},
                                           {"Share", true}, {"CPU", true},    {"Bytes", true},
                                           {"FLOP", true},  {"Reached", true}};
    if (has_shapes) columns.push_back({"Shapes"});
    TextTable table(std::move(columns));
    double others = 0;
    for (std::size_t i = 0; i < report_.ops.size(); ++i) {
      const OpRow& row = report_.ops[i];
      if (i >= kMostOps) {
        others += row.seconds;
        continue;
      }
      std::vector<std::string> cells = cells_of(row);
      if (has_shapes) cells.push_back(row.shapes);
      table.add(cells);
    }
    std::string text = table.text();
    if (report_.ops.size() > kMostOps)
      text += "and " + std::to_string(report_.ops.size() - kMostOps) + " more rows of " +
              ms(others / steps_) + " ms together\n";
    return text;
  }

  [[nodiscard]] std::vector<std::string> cells_of(const OpRow& row) const {
    const double calls = static_cast<double>(row.calls);
    return {row.op,
            row.phase,
            row.dtype.empty() ? "--" : row.dtype,
            per_step(row.calls, report_),
            ms(row.seconds / steps_),
            fixed_text(row.seconds / calls * 1e6, 1),
            percent(row.share),
            part_of(row.cpu_seconds, row.host_seconds),
            bytes_text(row.bytes / report_.steps),
            row.flop == 0 ? "--" : tick_text(static_cast<double>(row.flop) / steps_),
            row.reached ? percent(*row.reached) : "--"};
  }

  [[nodiscard]] std::string modules() const {
    if (report_.modules.empty()) return "";
    TextTable table({{"Module"},
                     {"Calls", true},
                     {"Forward ms", true},
                     {"Backward ms", true},
                     {"Share", true},
                     {"Kept for backward", true}});
    for (const ModuleRow& row : report_.modules) {
      if (row.depth > kModuleDepth || (row.calls == 0 && row.depth > 0 && row.backward_seconds == 0))
        continue;
      const std::size_t dot = row.path.rfind('.');
      const std::string name = row.path.substr(dot == std::string::npos ? 0 : dot + 1);
      table.add(
          {std::string(static_cast<std::size_t>(row.depth) * 2, ' ') + row.type +
               (name.empty() ? "" : " " + name),
           per_step(row.calls, report_), ms(row.forward_seconds / steps_), ms(row.backward_seconds / steps_),
           part_of(row.forward_seconds + row.backward_seconds, report_.seconds), bytes_text(row.kept_bytes)});
    }
    return table.text();
  }

  [[nodiscard]] std::string waits() const {
    TextTable table({{"Host waits in"}, {"at"}, {"Calls", true}, {"ms", true}});
    for (const WaitRow& row : report_.waits)
      table.add({row.call, row.place, per_step(row.calls, report_), ms(row.seconds / steps_)});
    return table.text();
  }

  [[nodiscard]] std::string threads() const {
    TextTable table({{"Thread"}, {"ms", true}, {"Share", true}});
    for (const ThreadRow& row : report_.threads)
      table.add({row.thread, ms(row.seconds / steps_), part_of(row.seconds, report_.seconds)});
    return table.text();
  }

  const Report& report_;
  double steps_;
};

template <class Rows, class F>
Value::List list_of(const Rows& rows, F value_of) {
  Value::List list;
  for (const auto& row : rows) list.emplace_back(value_of(row));
  return list;
}

}  // namespace

std::string to_string(const Report& report) {
  if (report.steps == 0) return "Nothing is recorded yet: make warmup + steps steps of Profiler::step().";
  return Text(report).all();
}

std::ostream& operator<<(std::ostream& stream, const Report& report) { return stream << to_string(report); }

Value Report::to_value() const {
  return Value::Map{{"device", mezzo::to_string(device)},
                    {"steps", steps},
                    {"seconds", seconds},
                    {"cpu_seconds", cpu_seconds},
                    {"shortest", shortest},
                    {"longest", longest},
                    {"replays", replays},
                    {"ops", list_of(ops,
                                    [](const OpRow& row) {
                                      return Value::Map{{"op", row.op},
                                                        {"phase", row.phase},
                                                        {"dtype", row.dtype},
                                                        {"shapes", row.shapes},
                                                        {"calls", row.calls},
                                                        {"seconds", row.seconds},
                                                        {"host_seconds", row.host_seconds},
                                                        {"cpu_seconds", row.cpu_seconds},
                                                        {"share", row.share},
                                                        {"bytes", row.bytes},
                                                        {"flop", row.flop},
                                                        {"reached", row.reached}};
                                    })},
                    {"modules", list_of(modules,
                                        [](const ModuleRow& row) {
                                          return Value::Map{{"depth", row.depth},
                                                            {"path", row.path},
                                                            {"type", row.type},
                                                            {"calls", row.calls},
                                                            {"forward_seconds", row.forward_seconds},
                                                            {"backward_seconds", row.backward_seconds},
                                                            {"kept_bytes", row.kept_bytes}};
                                        })},
                    {"phases", list_of(phases,
                                       [](const PhaseRow& row) {
                                         return Value::Map{{"phase", row.phase},
                                                           {"calls", row.calls},
                                                           {"seconds", row.seconds},
                                                           {"device_seconds", row.device_seconds}};
                                       })},
                    {"waits", list_of(waits,
                                      [](const WaitRow& row) {
                                        return Value::Map{{"call", row.call},
                                                          {"place", row.place},
                                                          {"calls", row.calls},
                                                          {"seconds", row.seconds}};
                                      })},
                    {"threads", list_of(threads,
                                        [](const ThreadRow& row) {
                                          return Value::Map{{"thread", row.thread}, {"seconds", row.seconds}};
                                        })},
                    {"peak_bytes", peak_bytes},
                    {"peak_place", peak_place}};
}

}  // namespace mezzo::profile
