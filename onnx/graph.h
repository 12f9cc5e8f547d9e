// The graph under construction: values of two traces side by side, names, sizes that vary, constants.
// Mappings (onnx/mappings.h) see it through Call (onnx/call.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mezzo/nn/state_dict.h"
#include "mezzo/onnx/model.h"
#include "mezzo/onnx/trace.h"

namespace mezzo::onnx {

/// A number that both traces have: a size, a bound. It varies where they differ.
struct Size {
  std::int64_t first = 0, second = 0;
  [[nodiscard]] bool varies() const { return first != second; }
  friend bool operator==(const Size&, const Size&) = default;
  friend bool operator<(const Size& a, const Size& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
  friend Size operator+(const Size& a, const Size& b) { return {a.first + b.first, a.second + b.second}; }
};
using Sizes = std::vector<Size>;

/// Where an op stands, for errors.
struct Place {
  std::string op, module;
};
/// Throws: ValueError, naming op and module.
[[noreturn]] void refuse(const Place& place, const std::string& expected, const std::string& got,
                         const std::string& fix);

/// A tensor of both traces.
struct GraphValue {
  Tensor first, second;
  bool is_constant = false;  ///< no input has a part in it
  bool is_fixed = false;     ///< a constant of the same values in both runs
  std::string name = {};     ///< in the graph; "": not there yet
  /// Of the states of a recurrent op: those after its last step, and whether that one is step 0.
  std::string last_state = {};
  bool is_reversed = false;
  [[nodiscard]] Sizes sizes() const;
};

class Graph {
 public:
  using Id = std::size_t;

  /// `weights`: the model's parameters and buffers by path.
  Graph(std::int64_t opset, const nn::NamedTensors& weights);

  /// An input of the model. Sizes that differ are named: dim 0 "batch", others "<name>_dim<k>"; sizes that
  /// are equal in both runs have one name.
  void add_input(const std::string& name, const Tensor& first, const Tensor& second);
  /// A result of the model, which may be a constant.
  void add_output(const std::string& name, const Tensor& first, const Tensor& second);
  /// Leaves away what no output needs. Throws: ValueError for an input that none needs.
  [[nodiscard]] Model finish(std::string name);

  /// The value of both tensors: known already, a weight, or a constant. Throws: ValueError where the traces
  /// disagree about it.
  [[nodiscard]] Id value_of(const Tensor& first, const Tensor& second, const Place& place);
  /// A result of an op; `is_constant`: of constants alone.
  Id add_result(const Tensor& first, const Tensor& second, bool is_constant);
  [[nodiscard]] GraphValue& at(Id id) { return values_[id]; }
  /// `cast` is a weight in another dtype: it keeps its path, and is one initializer however often it is cast.
  void name_cast(const Tensor& cast, const Tensor& weight);
  /// Its name in the graph; a constant gets there with the first call.
  [[nodiscard]] std::string name_of(Id id, const Place& place);

  /// Adds a node and gives the names of its results, "<module>/<op>_<number>".
  std::vector<std::string> add_node(const std::string& module, const std::string& op,
                                    std::vector<std::string> inputs, std::vector<Attribute> attributes,
                                    std::size_t outputs);
  /// An initializer. Equal small ones are one.
  std::string constant(const Tensor& value, const std::string& name = "constant");
  /// i64 [sizes]: an initializer, or nodes that compute those that vary. `near`: values whose sizes are
  /// looked at first. Throws: ValueError where a size cannot be told from the sizes of values.
  std::string size_list(const Sizes& sizes, const std::vector<Id>& near, const Place& place);

  [[nodiscard]] std::int64_t opset() const { return model_.opset; }

 private:
  using Ids = std::unordered_map<const TensorImpl*, Id>;
  struct NamedSize {
    Size size;
    std::string name;
  };
  [[nodiscard]] std::optional<Id> known(const Ids& ids, const Tensor& tensor, Tensor GraphValue::*of) const;
  [[nodiscard]] std::string unique(const std::string& name);
  [[nodiscard]] std::string varying_constant(const GraphValue& value, const Place& place);
  [[nodiscard]] std::string varying_size(const Size& size, const std::vector<Id>& near, const Place& place);
  [[nodiscard]] std::optional<std::string> size_at(Id id, std::size_t dim, const Size& size);
  [[nodiscard]] std::optional<std::string> size_of_value(const Size& size, Id id);
  [[nodiscard]] std::optional<std::string> computed_size(const Size& size, const std::vector<Id>& near);
  [[nodiscard]] ValueInfo info_of(const std::string& name, const GraphValue& value);
  void use_name(const std::string& from, const std::string& to);

  Model model_;
  std::vector<GraphValue> values_;
  Ids first_, second_;  ///< of the tensors of each trace
  std::unordered_map<const TensorImpl*, std::string> weights_;
  std::map<std::pair<std::string, DType>, std::string> initializer_of_;  // of weights, by path and dtype
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> counts_;  // of names that were asked for
  std::map<std::string, std::string> small_;     // names of small constants, by dtype, shape and bytes
  std::vector<NamedSize> sizes_;
  std::vector<Id> inputs_;
  // Names of i64 [1]: what sizes were found to be, and dims of values.
  std::map<Size, std::string> known_sizes_;
  std::map<std::pair<Id, std::size_t>, std::string> known_dims_;
};

}  // namespace mezzo::onnx
