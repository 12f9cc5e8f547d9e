// StepOutcome, an optimizer step's message to a scheduler. A header of its own: amp makes it, optim reads it.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

/// Whether a step was made, as a record in device memory: nobody has to wait for the answer. A StepResult of
/// GradScaler::step converts to it.
struct StepOutcome {
  Tensor record;  ///< a ScalerRecord as bytes; undefined: the step was made
};

namespace detail {
/// Whether a step was made, bool 0-dim on the device; undefined: it was made, no scaler took part.
[[nodiscard]] Tensor was_made(const StepOutcome& outcome);
}  // namespace detail

}  // namespace mezzo::optim
