// A sample of supervised training, and a batch of them.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::data {

/// An input and what it should lead to: `const auto& [x, y] = example;`. A batch is an Example, too, with a
/// first dim more in each tensor.
struct Example {
  Tensor data;
  Tensor target;
};

}  // namespace mezzo::data
