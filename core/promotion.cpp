// ResultType promotes within each of three groups: tensors with dims, 0-dim tensors, numbers. A later group
// counts only if its kind is above the kind of the groups before it.
#include "mezzo/core/promotion.h"

#include "mezzo/core/error.h"

namespace mezzo {

namespace {

void merge(std::optional<DType>& into, DType dtype) { into = into ? promote(*into, dtype) : dtype; }

/// `lower` counts only if its kind is above the kind of `higher`.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || info(*lower).kind <= info(*higher).kind) return higher;
  return promote(*higher, *lower);
}

}  // namespace

ResultType& ResultType::add(const Tensor& operand) {
  return operand.defined() ? add(operand.dtype(), operand.dim() > 0) : *this;
}

ResultType& ResultType::add(const Scalar& operand) {
  merge(numbers_, operand.dtype());
  return *this;
}

ResultType& ResultType::add(DType dtype, bool has_dims) {
  merge(has_dims ? dims_ : zero_dims_, dtype);
  return *this;
}

DType ResultType::get() const {
  const std::optional<DType> result = combine(combine(dims_, zero_dims_), numbers_);
  if (!result) throw ValueError("result_type", "at least one operand", "none", "pass a tensor");
  return *result;
}

DType result_type(std::initializer_list<const Tensor*> operands) {
  ResultType result;
  for (const Tensor* operand : operands) result.add(*operand);
  return result.get();
}

}  // namespace mezzo
