// Names of events and of callbacks, the values that callbacks log, and how much of a training is done.
#include "mezzo/train/event.h"

#include <algorithm>
#include <array>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/train/callback.h"
#include "mezzo/train/trainer/parallel.h"

namespace mezzo::train {

std::string_view to_string(Event event) {
  static constexpr std::array<std::string_view, kEvents> kNames{
      "init",
      "before_load",
      "after_load",
      "fit_start",
      "iteration_start",
      "epoch_start",
      "before_dataloader",
      "after_dataloader",
      "batch_start",
      "before_train_batch",
      "before_forward",
      "after_forward",
      "before_loss",
      "after_loss",
      "before_backward",
      "after_backward",
      "after_train_batch",
      "batch_end",
      "batch_checkpoint",
      "epoch_end",
      "epoch_checkpoint",
      "iteration_end",
      "iteration_checkpoint",
      "fit_end",
      "eval_start",
      "eval_batch_start",
      "eval_before_forward",
      "eval_after_forward",
      "eval_batch_end",
      "eval_end",
      "predict_start",
      "predict_batch_start",
      "predict_before_forward",
      "predict_after_forward",
      "predict_batch_end",
      "predict_end",
  };
  const auto i = static_cast<std::size_t>(event);
  return i < kNames.size() ? kNames[i] : "?";
}

std::string Callback::identity() const { return name(); }
std::string Callback::name() const { return nn::detail::type_text(typeid(*this)); }

std::string detail::FunctionCallback::name() const { return "on(" + std::string(to_string(event_)) + ")"; }

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
