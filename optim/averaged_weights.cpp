// EMA and SWA: averages as tensors on the weights' device, moved by a part that is computed there too.
#include "mezzo/optim/averaged_weights.h"

#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/scaler/scaler_record.h"
#include "mezzo/ops/ops.h"

namespace mezzo::optim {

namespace {

NamedTensors checked(std::string_view name, NamedTensors weights) {
  if (weights.empty()) throw ValueError(name, "at least one weight", "none", "give it a model's");
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto& [path, weight] = weights[i];
    if (!weight.defined())
      throw ValueError(name, "defined weights", "an undefined " + path, "leave absent ones out");
    if (path.empty()) path = std::to_string(i);
    if (!(weight.device() == weights.front().second.device())) {
      throw DeviceError(name, "all weights on " + to_string(weights.front().second.device()),
                        to_string(weight.device()), "average those of each device by themselves");
    }
    require_own_memory(name, weight, path);
    for (std::size_t j = 0; j < i; ++j) {
      if (weights[j].first == path)
        throw ValueError(name, "each name once", path + " twice", "name them apart");
    }
  }
  return weights;
}

/// The memory of all weights in whose place averages are, once for each scope.
std::mutex averaged_mutex;
std::unordered_multiset<const Storage*> averaged;

}  // namespace

/// A scaler's record, read on the device.
Tensor detail::was_made(const StepOutcome& outcome) {
  if (!outcome.record.defined()) return {};
  const NoGrad no_grad;
  static_assert(offsetof(ScalerRecord, found_inf) % 4 == 0);
  const TensorImpl& impl = outcome.record.impl();
  const std::int64_t at = (impl.offset + static_cast<std::int64_t>(offsetof(ScalerRecord, found_inf))) / 4;
  const Tensor found_inf(make_ref<TensorImpl>(impl.storage, at, Shape{}, Dims{}, DType::i32, false));
  return eq(found_inf, 0);
}

bool holds_average(const Tensor& weight) {
  if (!weight.defined()) return false;
  const std::scoped_lock lock(averaged_mutex);
  return averaged.contains(weight.impl().storage.get());
}

AveragedWeights::AveragedWeights(std::string_view name, NamedTensors weights)
    : weights_(checked(name, std::move(weights))) {
  const NoGrad no_grad;
  for (const auto& [path, weight] : weights_) {
    const DType dtype = is_16bit(weight.dtype()) ? DType::f32 : weight.dtype();
    averages_.push_back(empty(weight.shape(), {.dtype = dtype, .device = weight.device()}));
    averages_.back().copy_(weight.detach());
  }
  count_ = zeros({}, {.dtype = DType::i64, .device = weights_.front().second.device()});
}

void AveragedWeights::update(const StepOutcome& outcome) {
  const PlainOps plain;
  const Tensor made = detail::was_made(outcome);
  const Tensor count = to(count_, DType::f64);
  Tensor part = where(eq(count_, 0), ones_like(count), part_of_new(clamp(count, Scalar(1.0))));
  if (made.defined()) part = where(made, part, 0.0);
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor weight = weights_[i].second.detach(), &average = averages_[i];
    if (is_floating(weight.dtype())) {
      const Tensor wide = to(weight, average.dtype());
      const Tensor next = lerp(average, wide, to(part, average.dtype()));
      average.copy_(made.defined() ? where(made, next, average) : next);
    } else {
      average.copy_(made.defined() ? where(made, weight, average) : weight);
    }
  }
  count_.add_(made.defined() ? to(made, DType::i64) : ones_like(count_));
}

void AveragedWeights::copy_to_weights() const {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i) weights_[i].second.copy_(averages_[i]);
}

NamedTensors AveragedWeights::averages() const {
  const NoGrad no_grad;
  NamedTensors result;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    result.emplace_back(weights_[i].first, clone(averages_[i]));
  return result;
}

AveragedWeights::Scope::Scope(const AveragedWeights& average) : average_(average) {
  const NoGrad no_grad;
  for (const auto& [path, weight] : average_.weights_) weights_.push_back(clone(weight.detach()));
  {
    const std::scoped_lock lock(averaged_mutex);
    for (const auto& [path, weight] : average_.weights_) {
      memory_.push_back(weight.impl().storage);
      averaged.insert(memory_.back().get());
    }
  }
  average_.copy_to_weights();
}

AveragedWeights::Scope::~Scope() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) average_.weights_[i].second.copy_(weights_[i]);
  const std::scoped_lock lock(averaged_mutex);
  for (const Ref<Storage>& memory : memory_) averaged.erase(averaged.find(memory.get()));
}

NamedTensors AveragedWeights::state_dict() const {
  NamedTensors state{{"n_averaged", count_}};
  for (std::size_t i = 0; i < averages_.size(); ++i)
    state.emplace_back("module." + weights_[i].first, averages_[i]);
  return state;
}

void AveragedWeights::load_state_dict(const NamedTensors& state) {
  constexpr std::string_view kLoad = "AveragedWeights.load_state_dict";
  const NamedTensors mine = state_dict();
  std::vector<Tensor> values;
  for (const auto& [name, target] : mine) {
    const Tensor* found = nullptr;
    for (const auto& [key, value] : state) {
      if (key == name && value.defined()) found = &value;
    }
    if (found == nullptr)
      throw StateError(kLoad, "a tensor " + name, "none", "load the state of the same model");
    if (found->shape() != target.shape())
      throw ShapeError(kLoad, name + " " + to_string(target.shape()), to_string(found->shape()),
                       "load the state of the same model");
    if (is_floating(found->dtype()) != is_floating(target.dtype()))
      throw DTypeError(kLoad, name + " of " + to_string(target.dtype()), to_string(found->dtype()),
                       "check the file");
    values.push_back(found->detach());
  }
  if (state.size() != mine.size())
    throw StateError(kLoad, std::to_string(mine.size()) + " tensors", std::to_string(state.size()),
                     "load the state of the same model");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i].second.copy_(to(values[i], mine[i].second.device()));
}

EMA::EMA(const NamedTensors& weights, const EMAOptions& options)
    : AveragedWeights("EMA", weights), decay_(options.decay) {
  require_option("EMA", options.decay >= 0 && options.decay <= 1, "decay in [0, 1]", options.decay);
}

Tensor EMA::part_of_new(const Tensor& count) const { return full_like(count, 1 - decay_); }

Tensor SWA::part_of_new(const Tensor& count) const { return reciprocal(add(count, 1)); }

}  // namespace mezzo::optim
