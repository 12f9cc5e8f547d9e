// The check of a pickle's values in the end: they must form a tree, shared values apart, of the kinds that a
// TorchValue has.
#pragma once

#include "mezzo/io/detail/torch/pickle_calls.h"

namespace mezzo::io::detail {

/// Turns dtypes among the values into strings. Throws: IoError for names and storages that are left over,
/// values that contain themselves, more than kMaxTorchDepth levels, and keys that are no strings or integers
/// or occur twice.
void check_pickled(PickledValues& values);

}  // namespace mezzo::io::detail
