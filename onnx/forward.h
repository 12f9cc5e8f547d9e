// A model and its call, as an export runs it.
#pragma once

#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/nn/module.h"

namespace mezzo::onnx {

/// What runs: the model, and its call with given inputs.
struct Forward {
  nn::Module* net;
  mezzo::detail::Function<std::vector<Tensor>(const std::vector<Tensor>&)> run;
};

}  // namespace mezzo::onnx
