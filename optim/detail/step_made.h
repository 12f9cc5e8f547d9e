// Whether a step was made, as a tensor.
#pragma once

#include "mezzo/optim/step_outcome.h"

namespace mezzo::optim {

/// bool 0-dim on the device; undefined: it was made, no scaler took part.
[[nodiscard]] Tensor was_made(const StepOutcome& outcome);

}  // namespace mezzo::optim
