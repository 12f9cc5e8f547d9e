// The callback behind TrainerOptions::profile. A step of the profile goes from the end of the batch before to
// its own end, so that the loader is in it.
#include <optional>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/warning.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/profile/profiler.h"
#include "mezzo/train/logger.h"
#include "mezzo/train/trainer/core.h"

namespace mezzo::train {

namespace {

/// Files that cannot be written are a warning.
class Profiling final
    : public detail::CallbackAt<Event::fit_start, Event::batch_start, Event::batch_end, Event::fit_end> {
 public:
  Profiling(const TrainerProfile& options, bool writes) : options_(options), writes_(writes) {
    const profile::Profiler checks({.warmup = options.from, .steps = options.steps});
  }

  void run(Event event, State& state) override {
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

 private:
  void write(State& state) {
    const profile::Report report = profiler_->report();
    if (report.steps == 0) return;
    state.logger().text("profile", report.to_value());
    try {
      io::AtomicFile file(options_.folder + "/profile.txt");
      file.write(to_string(report) + "\n");
      file.commit();
      profiler_->write_chrome_trace(options_.folder + "/trace.json");
    } catch (const IoError& error) {
      warn_once("trainer_profile", std::string(error.what()) + " (the training goes on)");
    }
  }

  TrainerProfile options_;
  bool writes_;
  std::optional<profile::Profiler> profiler_;  ///< until it is done
  std::optional<profile::Profiler::Step> step_;
};

}  // namespace

std::unique_ptr<Callback> TrainerCore::make_profiling() const {
  TrainerProfile profile = options_.profile;
  if (profile.folder.empty()) profile.folder = saves() ? options_.save.folder : ".";
  return std::make_unique<Profiling>(profile, parallel_.is_first());
}

}  // namespace mezzo::train
