// Learning-rate schedules by the goldens' names, with PyTorch's arguments.
#pragma once

#include <string>

#include "mezzo/core/value.h"
#include "mezzo/optim/plateau_scheduler.h"
#include "mezzo/optim/schedule.h"

namespace mezzo::golden {

/// The schedule `name`; lists of schedules are [name, arguments] each. NotSupported when mezzo has it not, or
/// not one of its arguments.
[[nodiscard]] optim::Schedule make_schedule(const std::string& name, const Value& args);

/// ReduceLROnPlateau's arguments likewise.
[[nodiscard]] optim::ReduceLROnPlateauOptions plateau_options(const Value& args);

}  // namespace mezzo::golden
