// Inputs and targets of batches, and what is the same for all optimizers.
#include "mezzo/train/functions.h"

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/core/warning.h"

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

double result_of(std::string_view op, const EvalResults& results, const std::string& metric) {
  if (const auto found = results.find(metric); found != results.end()) return found->second;
  constexpr std::size_t kMostNamed = 5;
  const std::string names =
      mezzo::detail::listed(results, kMostNamed, [](const auto& result) { return result.first; });
  throw ValueError(op, "a metric of the evaluations: " + names, metric,
                   "name one of these, or add it to the trainer's metrics");
}

}  // namespace detail

std::vector<std::string> EvalMetric::names(const Tensor& result) const {
  constexpr std::int64_t kMost = 1024;
  if (result.numel() == 1) return {name_};
  static constinit WarningSite site("metric_not_logged");
  if (result.dim() > 1) {
    if (site.is_fresh()) {
      site.warn("EvalMetric", "a metric of one number, or one per class",
                metric_->name() + " '" + name_ + "' of shape " + to_string(result.shape()) +
                    ", which is not logged",
                "read its compute()");
    }
    return {};
  }
  if (result.numel() > kMost) {
    throw ShapeError(metric_->name(),
                     "at most " + std::to_string(kMost) + " classes to log as '" + name_ + "'",
                     std::to_string(result.numel()),
                     "take an average, or update the metric in a loop and read its compute()");
  }
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < result.numel(); ++i) names.push_back(name_ + "/" + std::to_string(i));
  return names;
}

std::vector<Tensor> AnyOptimizer::parameters() const {
  return optimizer_ != nullptr ? optimizer_->parameters() : parameters_;
}

}  // namespace mezzo::train
