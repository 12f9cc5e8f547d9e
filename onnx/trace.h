// The ops of one forward, in order, with their tensors: what a graph is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/value.h"
#include "mezzo/onnx/forward.h"

namespace mezzo::onnx {

/// The name of an op of a trace that gives its inputs other names: the results of a composition.
inline constexpr std::string_view kSameValues = "same_values";

/// A call of an op. Tensors are known again by identity, so they are held.
struct TracedOp {
  std::string name;
  std::string module = {};  ///< the path of the module in whose forward it ran
  std::string place = {};   ///< the module as errors name it: "Linear 'encoder.fc'"
  std::vector<Tensor> inputs = {},
                      outputs = {};  ///< after autocast; an undefined tensor is an input not given
  Value attrs = {};
};

struct Trace {
  std::vector<Tensor> inputs = {};
  std::vector<TracedOp> ops = {};
  std::vector<Tensor> outputs = {};
};

/// Whether a call has nodes of its own (onnx/mappings.h).
using IsMapped = bool (*)(const TracedOp& op, std::int64_t opset);

/// Runs forward once, under autocast of `precision` unless that is f32. An op that is not mapped but has a
/// plain composition of ops stands as that composition. Throws: what forward throws, and StateError where a
/// tensor of the trace is written in place.
[[nodiscard]] Trace trace(const Forward& forward, const std::vector<Tensor>& inputs, DType precision,
                          std::int64_t opset, IsMapped is_mapped);

}  // namespace mezzo::onnx
