// The callback behind TrainerOptions::profile.
#pragma once

#include <optional>
#include <string>

#include "mezzo/profile/profiler.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

/// Profiles steps of each fit(), and leaves report and trace in a folder and the report in the logs. Of
/// several ranks the first one writes. Files that cannot be written are a warning.
class Profiling final
    : public detail::CallbackAt<Event::fit_start, Event::batch_start, Event::batch_end, Event::fit_end> {
 public:
  /// Throws: as profile::Profiler.
  Profiling(const TrainerProfile& options, std::string folder, bool writes);
  void run(Event event, State& state) override;

 private:
  void write(State& state);

  TrainerProfile options_;
  std::string folder_;
  bool writes_;
  std::optional<profile::Profiler> profiler_;  ///< until it is done
  std::optional<profile::Profiler::Step> step_;
};

}  // namespace mezzo::train
