// The model and the loss in their autocast region, and the checks of the types that they take.
#include "mezzo/train/trainer/model_call.h"

#include <cmath>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/factory.h"

namespace mezzo::train::detail {

namespace {

/// Enters the region, if there is one, around f.
template <class F>
Tensor in_region(const ModelCall& call, const F& f) {
  const auto dtype = call.region_dtype();
  if (!dtype) return f();
  const amp::Autocast region(call.device, *dtype, {.fp8 = call.precision == amp::Precision::amp_fp8});
  return f();
}

}  // namespace

std::optional<DType> ModelCall::region_dtype() const noexcept {
  if (precision == amp::Precision::amp_fp16) return DType::f16;
  if (precision == amp::Precision::amp_bf16 || precision == amp::Precision::amp_fp8) return DType::bf16;
  return std::nullopt;
}

Tensor ModelCall::forward(const AnyBatch& batch) const {
  if (loss_function.calls_model() && !forward_function.call) return {};
  return in_region(*this, [&] {
    return forward_function.call ? forward_function.call(batch) : (*model.layer())(input_of(batch));
  });
}

Tensor ModelCall::loss(const Tensor& output, const AnyBatch& batch) const {
  return in_region(*this, [&] { return loss_function.function().call(output, batch); });
}

bool ModelCall::weighs_samples() const noexcept {
  if (weigh_by.function().call || weigh_by.by() == WeighBy::tokens) return false;
  return weigh_by.by() == WeighBy::samples || !loss_function.weighs_targets();
}

Tensor ModelCall::weight(const AnyBatch& batch) const {
  const NoInputHook no_autocast;
  const auto number = [](double count) { return full({}, count, {.dtype = DType::f64}); };
  if (weigh_by.function().call) {
    const double weight = weigh_by.function().call(batch);
    if (!(weight >= 0 && std::isfinite(weight)))
      throw ValueError("weigh_by", "a weight of a batch from 0", number_text(weight),
                       "count what the loss is a mean over");
    return number(weight);
  }
  if (weigh_by.by() == WeighBy::tokens) return number(static_cast<double>(tokens.call(batch)));
  if (!weighs_samples()) return loss_function.mean_divisor(batch);
  return number(static_cast<double>(batch.find_samples().value_or(1)));
}

void check_batch(std::string_view op, std::string_view function, const std::type_info* taken,
                 const std::type_info& batch) {
  const std::string got = "batches of type " + nn::detail::type_text(batch);
  if (taken == nullptr && !has_input_and_target(batch)) {
    throw ValueError(op, "batches of type Example, Tensor or pair of tensors, for " + std::string(function),
                     got, "give a function of the whole batch");
  }
  if (taken != nullptr && *taken != batch) {
    throw ValueError(
        op,
        "batches of type " + nn::detail::type_text(*taken) + ", as " + std::string(function) + " takes them",
        got, "let it take the type that the loader gives");
  }
}

void ModelCall::check(std::string_view op, const std::type_info& batch) const {
  if (model.layer() == nullptr && !forward_function.call && !loss_function.calls_model()) {
    throw ValueError(op, "a model that is an nn::Layer, or a forward",
                     model.module()->type_name() + " and none",
                     "give .forward = [&](const Batch& batch) { return net(...); }");
  }
  if (!loss_function.calls_model() || forward_function.call)
    check_batch(op, forward_function.call ? "forward" : "the model", forward_function.batch, batch);
  if (loss_function.defined()) check_batch(op, "the loss", loss_function.function().batch, batch);
  if (weigh_by.function().call) check_batch(op, "weigh_by", weigh_by.function().batch, batch);
}

nn::RunningNorm* batch_norm(nn::Module& module) {
  nn::RunningNorm* norm = dynamic_cast<nn::BatchNorm1d*>(&module);
  if (norm == nullptr) norm = dynamic_cast<nn::BatchNorm2d*>(&module);
  if (norm == nullptr) norm = dynamic_cast<nn::BatchNorm3d*>(&module);
  return norm != nullptr && norm->running_mean.defined() ? norm : nullptr;
}

}  // namespace mezzo::train::detail
