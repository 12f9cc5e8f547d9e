// Running an ONNX model by mezzo's own ops, for tests where there is no onnxruntime.
#pragma once

#include <vector>

#include "mezzo/onnx/model.h"

namespace mezzo::onnx::testing {

/// The outputs of the model for these inputs. Throws: std::runtime_error for an op or attribute that is not
/// known here, a name that is not there before its use, and a result of another dtype or shape than the model
/// says.
[[nodiscard]] std::vector<Tensor> evaluate(const Model& model, const std::vector<Tensor>& inputs);

}  // namespace mezzo::onnx::testing
