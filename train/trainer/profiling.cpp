// A step of the profile goes from the end of the batch before to its own end, so that the loader is in it.
#include "mezzo/train/trainer/profiling.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/train/logger.h"

namespace mezzo::train {

Profiling::Profiling(const TrainerProfile& options, std::string folder, bool writes)
    : options_(options), folder_(std::move(folder)), writes_(writes) {
  const profile::Profiler checks({.warmup = options.from, .steps = options.steps});
}

void Profiling::run(Event event, State& state) {
  if (event == Event::fit_start) {
    step_.reset();
    profiler_.emplace(profile::ProfilerOptions{.model = state.model,
                                               .warmup = options_.from,
                                               .steps = options_.steps,
                                               .device = state.device,
                                               .shapes = options_.shapes});
  }
  if (!profiler_) return;
  if (event == Event::batch_start) step_.emplace(profiler_->step());
  if (event == Event::batch_end) step_.reset();
  if (event == Event::fit_end && profiler_->is_recording()) profiler_->stop();
  if (!profiler_->is_done()) return;
  if (writes_) write(state);
  profiler_.reset();
}

void Profiling::write(State& state) {
  const profile::Report report = profiler_->report();
  if (report.steps == 0) return;
  state.logger().text("profile", report.to_value());
  try {
    io::AtomicFile file(folder_ + "/profile.txt");
    file.write(to_string(report) + "\n");
    file.commit();
    profiler_->write_chrome_trace(folder_ + "/trace.json");
  } catch (const IoError& error) {
    warn_once("trainer_profile", std::string(error.what()) + " (the training goes on)");
  }
}

}  // namespace mezzo::train
