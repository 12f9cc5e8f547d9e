// What callbacks log, and how much of a training is done.
#include "mezzo/train/state.h"

#include <algorithm>

namespace mezzo::train {

void State::log(std::string name, LogValue value) {
  for (auto& [known, old] : pending_) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  pending_.emplace_back(std::move(name), std::move(value));
}

double State::progress() const {
  if (!max_duration) return 0;
  double done = time.get(max_duration->unit()).value();
  if (max_duration->unit() == TimeUnit::epoch && epoch_batches_)
    done += static_cast<double>(time.batch_in_epoch) / static_cast<double>(*epoch_batches_);
  return std::clamp(done / max_duration->value(), 0.0, 1.0);
}

}  // namespace mezzo::train
