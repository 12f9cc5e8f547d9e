// Which ONNX nodes a mezzo op becomes: one table per family of ops. An op is added by a row; ops with a plain
// composition (Op::reference) need none.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mezzo/onnx/call.h"

namespace mezzo::onnx {

struct Mapping {
  std::string_view op;
  void (*add)(Call& call);
  /// Whether it takes this call; nullptr: each.
  bool (*takes)(const TracedOp& op, std::int64_t opset) = nullptr;
};

// The tables (onnx/mappings/).
[[nodiscard]] std::span<const Mapping> pointwise_mappings();
[[nodiscard]] std::span<const Mapping> activation_mappings();
[[nodiscard]] std::span<const Mapping> shape_mappings();
[[nodiscard]] std::span<const Mapping> indexing_mappings();
[[nodiscard]] std::span<const Mapping> reduction_mappings();
[[nodiscard]] std::span<const Mapping> product_mappings();
[[nodiscard]] std::span<const Mapping> convolution_mappings();
[[nodiscard]] std::span<const Mapping> pooling_mappings();
[[nodiscard]] std::span<const Mapping> norm_mappings();
[[nodiscard]] std::span<const Mapping> recurrent_mappings();

/// The row for a call; nullptr: there is none.
[[nodiscard]] const Mapping* mapping_of(const TracedOp& op, std::int64_t opset);
[[nodiscard]] inline bool is_mapped(const TracedOp& op, std::int64_t opset) {
  return mapping_of(op, opset) != nullptr;
}

/// Adds what the call computes to the graph: nothing when it computes a constant, else the nodes of its
/// mapping. Throws: ValueError, naming op and module, for an op that has none.
void add_call(Graph& graph, const TracedOp& first, const TracedOp& second);

}  // namespace mezzo::onnx
