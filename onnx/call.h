// A call of a mezzo op that becomes nodes: what a mapping (onnx/mappings.h) reads and writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mezzo/onnx/graph.h"

namespace mezzo::onnx {

class Call {
 public:
  /// The same call in both traces. Throws: ValueError where it is not the same op.
  Call(Graph& graph, const TracedOp& first, const TracedOp& second);

  // --- the op
  [[nodiscard]] std::size_t num_inputs() const { return first_.inputs.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < num_inputs() && first_.inputs[i].defined(); }
  /// Input and output of the first run, for shapes and dtypes.
  [[nodiscard]] const Tensor& in(std::size_t i) const { return first_.inputs[i]; }
  [[nodiscard]] const Tensor& out(std::size_t i = 0) const { return first_.outputs[i]; }
  [[nodiscard]] std::size_t num_outputs() const { return first_.outputs.size(); }
  [[nodiscard]] Sizes in_sizes(std::size_t i) const;
  [[nodiscard]] Sizes out_sizes(std::size_t i = 0) const;
  /// Whether no input of the model has a part in input i; and it has the same values in both runs.
  [[nodiscard]] bool is_constant(std::size_t i) const { return graph_.at(ids_[i]).is_constant; }
  [[nodiscard]] bool is_fixed(std::size_t i) const { return graph_.at(ids_[i]).is_fixed; }
  /// Whether it is a constant of zeros.
  [[nodiscard]] bool is_zero(std::size_t i) const;

  // --- its attributes; those that vary between the runs are refused but for size and sizes.
  [[nodiscard]] const Value& attr(std::string_view name) const;
  [[nodiscard]] bool is_null(std::string_view name) const { return attr(name).is_null(); }
  /// Whether it is not null; its value may vary.
  [[nodiscard]] bool is_given(std::string_view name) const { return !first_.attrs.at(name).is_null(); }
  [[nodiscard]] std::int64_t integer(std::string_view name) const { return attr(name).as_int(); }
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const { return attr(name).as_bool(); }
  [[nodiscard]] const std::string& text(std::string_view name) const { return attr(name).as_string(); }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  /// A dim, counted from the front: of input 0, or of a tensor of that many dims.
  [[nodiscard]] std::int64_t dim(std::string_view name) const;
  [[nodiscard]] std::int64_t dim(std::string_view name, std::int64_t rank) const;
  /// A list of dims; all of them for an empty one.
  [[nodiscard]] std::vector<std::int64_t> dims(std::string_view name) const;
  [[nodiscard]] Size size(std::string_view name) const;
  [[nodiscard]] Sizes sizes(std::string_view name) const;

  // --- nodes
  /// The name of input i, cast to `dtype` where it has another one.
  [[nodiscard]] std::string input(std::size_t i);
  [[nodiscard]] std::string input(std::size_t i, DType dtype);
  /// "" for an input that is not given.
  [[nodiscard]] std::string optional_input(std::size_t i, DType dtype);
  /// A node, and the name of its result.
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<Attribute> attributes = {});
  std::vector<std::string> nodes(const std::string& op, std::vector<std::string> inputs,
                                 std::vector<Attribute> attributes, std::size_t outputs);
  [[nodiscard]] std::string cast(const std::string& x, DType from, DType to);
  [[nodiscard]] std::string constant(const Tensor& value, const std::string& name = "constant");
  /// A number of a dtype, 0-dim.
  [[nodiscard]] std::string number(double value, DType dtype);
  /// i64 [values].
  [[nodiscard]] std::string list(const std::vector<std::int64_t>& values);
  [[nodiscard]] std::string list(const Sizes& sizes);
  /// A reduction over dims ("ReduceMean"): as an attribute before opset 18, but for ReduceSum.
  [[nodiscard]] std::string reduced(const std::string& op, const std::string& x,
                                    const std::vector<std::int64_t>& dims, bool keepdim);
  /// `from`: the sizes of x where it is at hand, of which those that stay in their place need no nodes.
  [[nodiscard]] std::string reshaped(const std::string& x, const Sizes& sizes, const Sizes& from = {});

  // --- results
  void set(const std::string& name) { set(0, name); }
  void set(std::size_t output, const std::string& name);
  /// The name that was set.
  [[nodiscard]] const std::string& result() const { return graph_.at(outputs_[0]).name; }
  /// set() of what was computed in another dtype than the output's.
  void set_cast(const std::string& name, DType from) { set(cast(name, from, out().dtype())); }

  /// Says which states output `output` of a recurrent op ends with.
  void set_last_state(std::size_t output, const std::string& name, bool is_reversed);
  /// Of a select: sets the result where that is the last state of a recurrent op.
  [[nodiscard]] bool select_state();

  [[nodiscard]] std::int64_t opset() const { return graph_.opset(); }
  [[noreturn]] void refuse(const std::string& expected, const std::string& got, const std::string& fix) const;

 private:
  friend void add_call(Graph& graph, const TracedOp& first, const TracedOp& second);

  Graph& graph_;
  const TracedOp &first_, &second_;
  Place place_;
  std::vector<Graph::Id> ids_;  // of inputs; of those that are not given 0
  std::vector<Graph::Id> outputs_;
};

}  // namespace mezzo::onnx
