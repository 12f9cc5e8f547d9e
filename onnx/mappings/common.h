// Nodes that several tables make.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "mezzo/onnx/mappings.h"

namespace mezzo::onnx {

/// Text as a template argument.
template <std::size_t kSize>
struct Literal {
  char text[kSize];
  constexpr Literal(const char (&from)[kSize]) { std::copy_n(from, kSize, text); }
};

/// One ONNX node of the same inputs, which are cast to the dtype of the result.
template <Literal kOp, std::size_t kInputs = 1>
void same(Call& call) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < kInputs; ++i) inputs.push_back(call.input(i, call.out().dtype()));
  call.set(call.node(kOp.text, inputs));
}

/// Input i in the dtype of the result.
[[nodiscard]] inline std::string operand(Call& call, std::size_t i) {
  return call.input(i, call.out().dtype());
}
/// A number in the dtype of the result.
[[nodiscard]] inline std::string number(Call& call, double value) {
  return call.number(value, call.out().dtype());
}

}  // namespace mezzo::onnx
