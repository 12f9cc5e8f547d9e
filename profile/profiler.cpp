// Which steps are recorded, and what becomes of a recording. Faults of a profile are warnings: the training
// goes on.
#include "mezzo/profile/profiler.h"

#include <thread>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/profile/recorder.h"
#include "mezzo/profile/views.h"

namespace mezzo::profile {

struct Profiler::State {
  ProfilerOptions options;
  Device device;
  std::int64_t begun = 0;  ///< steps
  bool is_open = false;    ///< a step
  bool records = false, is_done = false;
  std::thread::id thread;  ///< that the recording began on
  Recording recording;

  /// Begins the recording, if it can.
  void start() {
    static constinit WarningSite site("profiler_beside_another");
    records = Recorder::instance().start(
        {.model = options.model.module(), .device = device, .shapes = options.shapes, .nvtx = options.nvtx});
    thread = std::this_thread::get_id();
    if (records) return;
    is_done = true;
    site.warn("Profiler.step", "one profiler that records at a time", "a second one, which records nothing",
              "let the first one end");
  }
};

namespace {

Device device_of(const ProfilerOptions& options) {
  if (options.device) return *options.device;
  if (options.model.module() == nullptr) return Device::cpu();
  const std::vector<Tensor> parameters = options.model.module()->parameters();
  return parameters.empty() ? Device::cpu() : parameters.front().device();
}

void warn_of_step(std::string_view got, std::string_view fix) {
  static constinit WarningSite site("profiler_step");
  if (site.is_fresh()) site.warn("Profiler.step", "one step at a time, on one thread", got, fix);
}

}  // namespace

Profiler::Profiler(ProfilerOptions options) {
  if (options.warmup < 0 || options.steps < 1) {
    throw ValueError("Profiler", "a warmup of at least 0 and at least 1 step",
                     std::to_string(options.warmup) + " and " + std::to_string(options.steps),
                     "leave them out for 3 and 10");
  }
  static constinit WarningSite site("profiler_nvtx");
  if (options.nvtx && !has_nvtx() && site.is_fresh())
    site.warn("Profiler", "CUDA's headers, for nvtx", "a build without them",
              "leave nvtx out, or build with CUDA");
  const Device device = device_of(options);
  state_ = std::make_unique<State>();
  state_->options = std::move(options);
  state_->device = device;
}

Profiler::~Profiler() { finish(); }

Profiler::Step Profiler::step() {
  State& state = *state_;
  if (state.is_done) return {};
  if (state.is_open) {
    warn_of_step("a step inside another one, which is not counted", "end the first step");
    return {};
  }
  if (state.records && state.thread != std::this_thread::get_id()) {
    warn_of_step("a step on another thread, which is not counted", "make a profiler on each thread's turn");
    return {};
  }
  if (state.begun == state.options.warmup && !state.records) state.start();
  if (state.is_done) return {};
  ++state.begun;
  state.is_open = true;
  if (state.records) Recorder::instance().begin_step();
  return Step(this);
}

void Profiler::end_step() noexcept {
  State& state = *state_;
  state.is_open = false;
  if (state.records) Recorder::instance().end_step();
  try {
    if (state.records && state.begun == state.options.warmup + state.options.steps) finish();
    // What a loop does between its steps belongs to the next one.
    if (state.begun == state.options.warmup && !state.records && !state.is_done) state.start();
  } catch (...) {  // no memory, or a warning handler that throws
    state.is_done = true;
  }
}

void Profiler::stop() {
  static constinit WarningSite site("profiler_stop");
  if (!state_->records && site.is_fresh())
    site.warn("Profiler.stop", "a recording", "none, or one that has ended", "call it once");
  finish();
}

void Profiler::finish() noexcept {
  State& state = *state_;
  if (!state.records) return;
  state.records = false;
  state.is_done = true;
  static constinit WarningSite site("profiler_end");
  try {
    state.recording = Recorder::instance().stop();
    if (!state.options.trace.empty()) write_chrome_trace(state.options.trace);
  } catch (const std::exception& error) {
    try {
      site.warn("Profiler", "to write what was recorded", error.what(), "the training goes on");
    } catch (...) {  // a warning handler that throws
    }
  }
}

bool Profiler::is_recording() const noexcept { return state_->records; }
bool Profiler::is_done() const noexcept { return state_->is_done; }

Report Profiler::report() const {
  Report report = report_of(state_->recording);
  report.device = state_->device;
  if (state_->options.rates) add_rates(report);
  return report;
}

void Profiler::write_chrome_trace(const std::string& path) const {
  if (state_->recording.step_ends.empty())
    throw StateError("Profiler.write_chrome_trace", "recorded steps", "none",
                     "make warmup + 1 steps, and call stop() to end before the last one");
  mezzo::profile::write_chrome_trace(state_->recording, path);
}

}  // namespace mezzo::profile
