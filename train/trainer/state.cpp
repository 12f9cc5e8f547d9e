// The values that callbacks log, and how much of a training is done.
#include "mezzo/train/state.h"

#include <algorithm>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/train/trainer/parallel.h"

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

Tensor State::over_ranks(const Metric& metric) const {
  if (run_->is_alone()) return metric.compute();
  const NoGrad no_grad;
  std::vector<Tensor> own;
  for (const Tensor& sum : metric.state()) own.push_back(sum.clone());
  static_cast<void>(run_->add_up(metric, {own}));
  Tensor result = metric.compute().clone();
  for (std::size_t i = 0; i < own.size(); ++i) Tensor(metric.state()[i]).copy_(own[i]);
  return result;
}

double State::progress() const {
  if (!max_duration) return 0;
  double done = time.get(max_duration->unit()).value();
  if (max_duration->unit() == TimeUnit::epoch && epoch_batches_)
    done += static_cast<double>(time.batch_in_epoch) / static_cast<double>(*epoch_batches_);
  return std::clamp(done / max_duration->value(), 0.0, 1.0);
}

}  // namespace mezzo::train
