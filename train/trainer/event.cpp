// Names of events and of callbacks.
#include "mezzo/train/event.h"

#include <array>

#include "mezzo/train/callback.h"

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

}  // namespace mezzo::train
