// A state dict while an optimizer takes it, whole or, where ranks share it out, in shards: the checks, and
// the words in which they say what is wrong.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// Name of the f32 value of a 16-bit parameter, the one part of a state that may be missing.
inline constexpr std::string_view kMaster = "master";

/// "0.exp_avg": the name of a tensor in a state dict.
[[nodiscard]] std::string state_key(std::size_t parameter, std::string_view name);

/// Throws: StateError in the name of `op` unless the options are those of such an optimizer with so many
/// parameters in each group.
void require_saved_groups(std::string_view op, const Value& options, std::string_view optimizer,
                          std::span<const std::int64_t> counts);

/// The tensors of a state dict, which are taken parameter by parameter: either none at all, for one that
/// never had a step, or all. Only a master may be missing. Throws in the name of `op`.
class SavedState {
 public:
  /// Throws: StateError when a tensor is undefined or given twice.
  SavedState(std::string_view op, const OptimizerState& state);
  /// Takes a tensor of the present parameter out; undefined: it is not there. Throws: ShapeError, and
  /// DTypeError unless it is floating, if it has to be.
  [[nodiscard]] Tensor take(const std::string& key, const Shape& shape, bool has_to_be_floating);
  /// Throws: StateError when the present parameter has a part of its state only.
  void end_parameter();
  /// Throws: StateError for a tensor that nobody has taken.
  void require_empty() const;

 private:
  std::string_view op_;
  std::map<std::string, Tensor> tensors_;
  bool has_any_ = false;
  std::string missing_;
};

}  // namespace mezzo::optim
