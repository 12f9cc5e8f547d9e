// The targets of a classification loss, as kernels see them.
#pragma once

#include <cstdint>

#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Class indices or class probabilities, with their options. Arrays are contiguous and in device memory.
struct ClassTarget {
  const std::int64_t* index = nullptr;  ///< one class per row, or nullptr: then probabilities
  View probabilities = {};              ///< of the logits' shape
  const void* weight = nullptr;         ///< one per class, in the compute type; always given
  std::int64_t ignore_index = -100;     ///< rows with this index have neither loss nor gradient
  double label_smoothing = 0;
};

}  // namespace mezzo::kernels
