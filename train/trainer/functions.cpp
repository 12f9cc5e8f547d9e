// Inputs and targets of batches, and what is the same for all optimizers.
#include "mezzo/train/functions.h"

#include "mezzo/core/error.h"

namespace mezzo::train {

namespace detail {

using TensorPair = std::pair<Tensor, Tensor>;

bool has_input_and_target(const std::type_info& batch) {
  return batch == typeid(data::Example) || batch == typeid(TensorPair) || batch == typeid(Tensor);
}

const Tensor& input_of(const AnyBatch& batch) {
  if (batch.is<data::Example>()) return batch.get<data::Example>().data;
  if (batch.is<TensorPair>()) return batch.get<TensorPair>().first;
  return batch.get<Tensor>();
}

const Tensor& target_of(const AnyBatch& batch) {
  if (batch.is<data::Example>()) return batch.get<data::Example>().target;
  if (batch.is<TensorPair>()) return batch.get<TensorPair>().second;
  return batch.get<Tensor>();
}

}  // namespace detail

std::vector<Tensor> AnyOptimizer::parameters() const {
  return optimizer_ != nullptr ? optimizer_->parameters() : parameters_;
}

}  // namespace mezzo::train
