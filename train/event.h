// The points of a training at which its algorithms and callbacks are asked.
#pragma once

#include <cstdint>
#include <string_view>

namespace mezzo::train {

/// In the order in which they come. The events from before_forward to after_backward come once per
/// microbatch, and again when an optimizer evaluates several times per step (SAM, LBFGS). An evaluation comes
/// between batch_end and batch_checkpoint, or between epoch_end and epoch_checkpoint.
/// Source: composer.core.Event.
enum class Event : std::uint8_t {
  init,         ///< model and optimizer are there and on their device
  before_load,  ///< before a checkpoint is loaded, or would be
  after_load,   ///< after a checkpoint was loaded, or would have been
  fit_start,
  iteration_start,
  epoch_start,
  before_dataloader,  ///< before a batch is taken from the loader; at the end of an epoch there is none
  after_dataloader,
  batch_start,
  before_train_batch,
  before_forward,
  after_forward,
  before_loss,
  after_loss,
  before_backward,
  after_backward,
  after_train_batch,  ///< gradients are complete and unscaled (clipping); the optimizer steps next
  batch_end,
  batch_checkpoint,
  epoch_end,
  epoch_checkpoint,
  iteration_end,
  iteration_checkpoint,
  fit_end,
  eval_start,
  eval_batch_start,
  eval_before_forward,
  eval_after_forward,
  eval_batch_end,
  eval_end,  ///< results are in State::eval_results; comes also when an evaluation throws, and so does
             ///< predict_end
  predict_start,
  predict_batch_start,
  predict_before_forward,
  predict_after_forward,
  predict_batch_end,
  predict_end,
};
inline constexpr int kEvents = static_cast<int>(Event::predict_end) + 1;

/// "batch_end".
[[nodiscard]] std::string_view to_string(Event event);

}  // namespace mezzo::train
