// The tables as one, and the step from a call to its row.
#include "mezzo/onnx/mappings.h"

#include <unordered_map>

namespace mezzo::onnx {

const Mapping* mapping_of(const TracedOp& op, std::int64_t opset) {
  static const std::unordered_map<std::string_view, const Mapping*> kAll = [] {
    std::unordered_map<std::string_view, const Mapping*> all;
    for (const std::span<const Mapping> table :
         {pointwise_mappings(), activation_mappings(), shape_mappings(), indexing_mappings(),
          reduction_mappings(), product_mappings(), convolution_mappings(), pooling_mappings(),
          norm_mappings(), recurrent_mappings()}) {
      for (const Mapping& row : table) all.emplace(row.op, &row);
    }
    return all;
  }();
  const auto found = kAll.find(op.name);
  if (found == kAll.end()) return nullptr;
  const Mapping* const row = found->second;
  return row->takes == nullptr || row->takes(op, opset) ? row : nullptr;
}

void add_call(Graph& graph, const TracedOp& first, const TracedOp& second) {
  Call call(graph, first, second);
  bool is_constant = true;
  for (std::size_t i = 0; i < first.inputs.size(); ++i)
    is_constant = is_constant && (!call.has(i) || call.is_constant(i));
  bool all_fixed = true;
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    call.outputs_.push_back(graph.add_result(first.outputs[i], second.outputs[i], is_constant));
    all_fixed = all_fixed && graph.at(call.outputs_.back()).is_fixed;
  }
  if (all_fixed && first.name == "to_dtype") graph.name_cast(first.outputs[0], first.inputs[0]);
  if (all_fixed) return;
  const Mapping* const mapping = mapping_of(first, graph.opset());
  if (mapping == nullptr) {
    call.refuse("ops that ONNX has", "none for it",
                "compute it from other ops, or give the op's descriptor a reference");
  }
  mapping->add(call);
}

}  // namespace mezzo::onnx
