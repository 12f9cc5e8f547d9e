// Which dtype an operation on several operands has: tensors with dims decide, then 0-dim tensors, then plain
// numbers, each only when its kind (bool, integer, floating) is higher. PyTorch's rule.
#pragma once

#include <initializer_list>
#include <optional>

#include "mezzo/core/scalar.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// Collects operands and gives their common dtype.
class ResultType {
 public:
  ResultType& add(const Tensor& operand);
  ResultType& add(const Scalar& operand);
  ResultType& add(DType dtype, bool has_dims);
  /// Throws: ValueError when nothing was added.
  [[nodiscard]] DType get() const;

 private:
  std::optional<DType> dims_, zero_dims_, numbers_;
};

/// Common dtype of tensors (undefined tensors take no part).
[[nodiscard]] DType result_type(std::initializer_list<const Tensor*> operands);

}  // namespace mezzo
