// A recording in the format of Chrome's about:tracing: one complete event ("X") per span, tracks named by
// metadata events ("M"). Source: "Trace Event Format", Google (2016).
#include <string>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/json.h"
#include "mezzo/profile/views.h"

namespace mezzo::profile {

namespace {

constexpr std::int64_t kProcess = 1;

double us(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

class ChromeTrace {
 public:
  explicit ChromeTrace(const Recording& recording) : recording_(recording) {
    describe("process_name", 0, "name", "mezzo");
    std::int64_t number = 1;
    for (const Track& track : recording.tracks) {
      // The thread that makes the steps comes first.
      const std::int64_t own = track.makes_steps ? 0 : number++;
      name(own, track.makes_steps ? "steps" : track.name);
      if (track.makes_steps) add_steps(own);
      for (const Span& span : track.spans) add(span, own, span.begin - recording.begin, span.host());
    }
    if (recording.device.is_cpu()) return;
    name(number, to_string(recording.device));
    for (const Track& track : recording.tracks) {
      for (const Span& span : track.spans) {
        if (span.device >= 0 && (span.kind == ActivityKind::op || span.name == "replay"))
          add(span, number, span.device_begin, span.device);
      }
    }
  }

  [[nodiscard]] std::string text() && {
    return io::dump_json(Value::Map{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}});
  }

 private:
  void describe(const char* kind, std::int64_t track, const char* argument, Value value) {
    events_.emplace_back(Value::Map{{"name", kind},
                                    {"ph", "M"},
                                    {"pid", kProcess},
                                    {"tid", track},
                                    {"args", Value::Map{{argument, std::move(value)}}}});
  }
  /// Tracks are shown by their numbers.
  void name(std::int64_t track, const std::string& text) {
    describe("thread_name", track, "name", text);
    describe("thread_sort_index", track, "sort_index", track);
  }

  void add_steps(std::int64_t track) {
    std::int64_t before = recording_.begin;
    for (std::size_t i = 0; i < recording_.step_ends.size(); ++i) {
      event("step " + std::to_string(i), "step", track, before - recording_.begin,
            recording_.step_ends[i] - before, {});
      before = recording_.step_ends[i];
    }
  }

  void add(const Span& span, std::int64_t track, std::int64_t begin, std::int64_t duration) {
    static constexpr const char* kKinds[] = {"op", "gradient", "module", "phase", "wait", "worker"};
    Value::Map arguments;
    std::string text = (span.kind == ActivityKind::gradient ? "gradient of " : "") + std::string(span.name);
    if (span.module >= 0) {
      const ModuleEntry& module = recording_.modules[static_cast<std::size_t>(span.module)];
      const std::string place = module.path.empty() ? module.type : module.path;
      if (span.kind == ActivityKind::module_call)
        text = place;
      else
        arguments.emplace_back("module", place);
      if (span.kind == ActivityKind::module_call) arguments.emplace_back("type", module.type);
    }
    if (span.is_described) {
      arguments.emplace_back("dtype", to_string(span.dtype));
      arguments.emplace_back("bytes", span.bytes);
      if (span.flop > 0) arguments.emplace_back("flop", span.flop);
      if (!span.shapes.empty()) arguments.emplace_back("shapes", span.shapes);
    }
    event(std::move(text), kKinds[static_cast<std::size_t>(span.kind)], track, begin, duration,
          std::move(arguments));
  }

  void event(std::string text, const char* kind, std::int64_t track, std::int64_t begin,
             std::int64_t duration, Value::Map arguments) {
    Value::Map map{{"name", std::move(text)}, {"cat", kind},     {"ph", "X"},   {"ts", us(begin)},
                   {"dur", us(duration)},     {"pid", kProcess}, {"tid", track}};
    if (!arguments.empty()) map.emplace_back("args", std::move(arguments));
    events_.emplace_back(std::move(map));
  }

  const Recording& recording_;
  Value::List events_;
};

}  // namespace

void write_chrome_trace(const Recording& recording, const std::string& path) {
  io::AtomicFile file(path);
  file.write(ChromeTrace(recording).text());
  file.commit();
}

}  // namespace mezzo::profile
