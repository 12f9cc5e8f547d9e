// Reading the ONNX files that mezzo writes, for tests: only what onnx/model.h can say, and anything else
// fails.
#pragma once

#include <cstdint>
#include <string>

#include "mezzo/onnx/model.h"

namespace mezzo::onnx::testing {

struct ReadModel {
  Model model;
  std::int64_t ir_version = 0;
  std::string producer;
};

/// Throws: std::runtime_error for a file that is not well formed or has fields that mezzo does not write.
[[nodiscard]] ReadModel read(const std::string& path);

}  // namespace mezzo::onnx::testing
