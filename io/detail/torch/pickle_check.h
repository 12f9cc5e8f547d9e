// What the values of a pickle must be in the end: a tree, but for what is shared, of values that a TorchValue
// can be.
#pragma once

#include "mezzo/io/detail/torch/pickle_calls.h"

namespace mezzo::io::detail {

/// Turns dtypes among the values into strings. Throws: IoError for names and storages that are left over,
/// values that contain themselves, more than kMaxTorchDepth levels, and keys that are no strings or integers
/// or occur twice.
void check_pickled(PickledValues& values);

}  // namespace mezzo::io::detail
