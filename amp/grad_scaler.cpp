// GradScaler in the training loop: which order of scale, unscale_, step and update is legal, and the
// kernels that each starts. Nothing here reads a value back; calls that do are in grad_scaler_state.cpp.
#include "mezzo/amp/grad_scaler.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/gradient_locks.h"
#include "mezzo/autograd/input_hook.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/replay/recording.h"
#include "mezzo/core/small_vector.h"
#include "mezzo/kernels/scaler/scaler.h"
#include "mezzo/ops/forward.h"
#include "mezzo/ops/ops.h"

namespace mezzo::amp {

namespace {

kernels::ScaleRule rule_of(const GradScalerOptions& options) {
  return {options.growth_factor, options.backoff_factor, options.growth_interval,
          options.hysteresis,    options.min_scale,      options.max_scale};
}

ScalerRecord* record_in(const Tensor& bytes) { return static_cast<ScalerRecord*>(bytes.impl().data()); }

/// Memory for a record, to be written as a whole.
Tensor new_record(Device device) {
  return empty({static_cast<std::int64_t>(sizeof(ScalerRecord))}, {.dtype = DType::u8, .device = device});
}

/// A copy of one field of a record as a 0-dim tensor on its device.
Tensor copy_field(const Tensor& record, std::size_t offset, DType dtype) {
  Tensor copy = empty({}, {.dtype = dtype, .device = record.device()});
  const auto* from = static_cast<const std::byte*>(record.impl().data()) + offset;
  backend(record.device())
      .copy_within(copy.impl().data(), from, static_cast<std::size_t>(size_of(dtype)), record.device().index);
  return copy;
}

/// A captured update() of a scaler, whose rule is in the arguments of its kernel.
class RecordedRule final : public mezzo::detail::ReplayedState {
 public:
  explicit RecordedRule(Ref<detail::RuleChanges> changes)
      : changes_(std::move(changes)), count_(changes_->count) {}
  void recorded() override {}
  void before_replay() override {
    if (changes_->count == count_) return;
    mezzo::detail::refuse_replay(
        "a GradScaler with the factors, interval, bounds and write_unscaled that it was recorded with",
        "others (set_options, load_state_dict)");
  }
  void after_replay() noexcept override {}

 private:
  Ref<detail::RuleChanges> changes_;
  std::uint32_t count_;
};

/// Gradients, where their parameters have them, and the indices of these.
struct OwnedGradients {
  SmallVector<TensorRef, 16> tensors;
  SmallVector<std::uint32_t, 16> owners;
};

std::size_t count_parameters(const optim::Optimizer& optimizer) {
  std::size_t count = 0;
  optimizer.for_each_parameter([&](const Tensor& /*parameter*/, std::size_t /*i*/) { ++count; });
  return count;
}

void lock_parameters(const optim::Optimizer& optimizer, autograd::GradientLocks& locks) {
  optimizer.for_each_parameter([&](const Tensor& parameter, std::size_t /*i*/) { locks.add(parameter); });
  locks.lock();
}

/// For an optimizer whose parameters' locks are held.
OwnedGradients gradients_of(const optim::Optimizer& optimizer, std::string_view op) {
  OwnedGradients gradients;
  bool has_elements = false;
  optimizer.for_each_parameter([&](const Tensor& parameter, std::size_t i) {
    has_elements = has_elements || parameter.numel() > 0;
    const Tensor& gradient = autograd::locked_grad(parameter);
    if (!gradient.defined()) return;
    if (gradient.dtype() == DType::f16 && !optimizer.has_master(i)) {
      throw DTypeError(
          op, "f32 or bf16 gradients", "f16 of " + optimizer.parameter_name(i) + ", which is f16 itself",
          "keep parameters in f32 and let autocast cast them, or give the optimizer master_weights = true");
    }
    if (!gradient.is_contiguous())
      optim::require_own_memory(op, gradient, "a gradient of " + optimizer.parameter_name(i));
    gradients.tensors.emplace_back(gradient);
    gradients.owners.push_back(static_cast<std::uint32_t>(i));
  });
  // Parameters without elements need no gradients: a rank without a shard has such parameters.
  if (gradients.tensors.empty() && has_elements) {
    throw StateError(op, "an optimizer with gradients", "one whose parameters have none",
                     "call backward() on a scaled loss that depends on its parameters first");
  }
  return gradients;
}

/// Gives 16-bit parameters with masters f32 gradients of the same values: unscaled there, nothing underflows.
/// All are made before the first is set, so that nothing has changed when there is no memory for them.
void widen(const OwnedGradients& gradients, const optim::Optimizer& optimizer) {
  const PlainOps plain;
  std::vector<std::pair<std::uint32_t, Tensor>> widened;
  for (std::size_t k = 0; k < gradients.tensors.size(); ++k) {
    const Tensor& gradient = gradients.tensors[k];
    if (!is_16bit(gradient.dtype()) || !optimizer.has_master(gradients.owners[k])) continue;
    widened.emplace_back(gradients.owners[k], gradient.detach().to(DType::f32));
  }
  if (widened.empty()) return;
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (const auto& [owner, gradient] : widened) parameters[owner].set_grad(gradient);
}

}  // namespace

void GradScaler::settle(Device device) {
  if (record_.defined()) {
    if (record_.device() == device) return;
    throw DeviceError("GradScaler.scale", "a loss on " + mezzo::to_string(record_.device()) + " as before",
                      mezzo::to_string(device), "use one scaler per device");
  }
  if (mezzo::detail::Recording::of(device) != nullptr) {
    throw StateError("GradScaler.scale", "a scaler that has scaled a loss before a step is recorded",
                     "one whose first call is recorded",
                     "run the step once as it is: every replay would begin with init_scale");
  }
  record_ = new_record(device);
  write_record(initial_);
}

void GradScaler::note_recording() {
  mezzo::detail::Recording* const recording = mezzo::detail::Recording::of(record_.device());
  if (recording == nullptr) return;
  recording->hold(record_.impl().storage);
  if (!changes_) changes_ = make_ref<detail::RuleChanges>();
  static_cast<void>(recording->state<RecordedRule>(changes_.get(), changes_));
}

void GradScaler::require_settled(std::string_view op) const {
  if (record_.defined()) return;
  throw StateError(op, "scale() to have been called", "a scaler that has scaled nothing yet",
                   "call scaler.scale(loss).backward() first");
}

void GradScaler::require_scaled(std::string_view op, const optim::Optimizer& optimizer) {
  if (loaded_ && !record_.defined()) settle(optimizer.device());
  require_settled(op);
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  if (!loss.defined())
    throw ValueError("GradScaler.scale", "a loss", "an undefined tensor", "pass the result of forward");
  settle(loss.device());
  note_recording();
  return mul(loss, scale_tensor());
}

std::vector<Tensor> GradScaler::scale(TensorList losses) {
  std::vector<Tensor> scaled;
  scaled.reserve(losses.size());
  for (const Tensor& loss : losses) scaled.push_back(scale(loss));
  return scaled;
}

GradScaler::PerOptimizer& GradScaler::state_of(const optim::Optimizer& optimizer) {
  for (PerOptimizer& state : per_optimizer_) {
    if (state.optimizer == optimizer.id()) return state;
  }
  per_optimizer_.emplace_back().optimizer = optimizer.id();
  return per_optimizer_.back();
}

void GradScaler::begin(PerOptimizer& state, const optim::Optimizer& optimizer, std::string_view op) {
  if (!(optimizer.device() == record_.device())) {
    throw DeviceError(op, "parameters on " + mezzo::to_string(record_.device()) + " as the loss",
                      mezzo::to_string(optimizer.device()), "use one scaler per device");
  }
  state.record = new_record(record_.device());  // the last one may be a StepResult's by now
  backend(record_.device())
      .copy_within(record_in(state.record), record_in(record_), sizeof(ScalerRecord), record_.device().index);
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  if (!options_.enabled) return;
  const Phase phase("unscale");
  require_scaled(op, optimizer);
  PerOptimizer& state = state_of(optimizer);
  if (state.stage == Stage::unscaled) {
    throw StateError(op, "one call per optimizer between updates", "a second one since the last update()",
                     "call update() once at the end of the iteration");
  }
  if (state.stage == Stage::stepped) {
    throw StateError(op, "a call before step()", "one after step()",
                     "move unscale_ before step, or call update() first");
  }
  autograd::GradientLocks locks;
  lock_parameters(optimizer, locks);
  const OwnedGradients gradients = gradients_of(optimizer, op);
  begin(state, optimizer, op);
  widen(gradients, optimizer);
  kernels::unscale(record_.device(), ops::views_of(gradients.tensors), record_in(state.record),
                   {gradients.owners});
  optimizer.agree_on_found_inf(record_in(state.record));
  for (const Tensor& gradient : gradients.tensors) gradient.impl().storage->bump_version();
  state.stage = Stage::unscaled;
  state.parameters = count_parameters(optimizer);
}

void GradScaler::look_at(optim::Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.step";
  if (!options_.enabled) return;
  require_scaled(op, optimizer);
  PerOptimizer& state = state_of(optimizer);
  if (state.stage >= Stage::unscaled) return;  // step() tells what is wrong
  state.stage = Stage::ready;                  // an evaluation may have ended by an exception
  autograd::GradientLocks locks;
  check_gradients(state, optimizer, locks);
  state.stage = Stage::looked_at;
}

void GradScaler::check_gradients(PerOptimizer& state, const optim::Optimizer& optimizer,
                                 autograd::GradientLocks& locks) {
  constexpr std::string_view op = "GradScaler.step";
  const Phase phase("check_finite");
  lock_parameters(optimizer, locks);
  const OwnedGradients gradients = gradients_of(optimizer, op);
  if (state.stage == Stage::ready) begin(state, optimizer, op);
  kernels::check_finite(record_.device(), ops::views_of(gradients.tensors), record_in(state.record),
                        {gradients.owners});
}

StepResult GradScaler::step(optim::Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.step";
  if (!options_.enabled) {
    optimizer.step();
    return {};
  }
  require_scaled(op, optimizer);
  PerOptimizer& state = state_of(optimizer);
  if (state.stage == Stage::stepped) {
    throw StateError(op, "one step per optimizer between updates", "a second one since the last update()",
                     "call update() once at the end of the iteration");
  }
  if (state.stage == Stage::unscaled && state.parameters != count_parameters(optimizer)) {
    throw StateError(op, "the parameters that unscale_ has unscaled", "a group that was added since",
                     "call add_param_group before unscale_, or after step()");
  }
  const bool unscale = state.stage != Stage::unscaled;
  // Held to the end of the step: what another thread added after the check would be in the step unchecked.
  autograd::GradientLocks locks;
  if (unscale) {
    check_gradients(state, optimizer, locks);
    optimizer.agree_on_found_inf(record_in(state.record));
  }
  optimizer.step(
      {.record = record_in(state.record), .unscale = unscale, .write_unscaled = options_.write_unscaled});
  state.stage = Stage::stepped;
  return StepResult(state.record);
}

StepResult GradScaler::step(optim::Optimizer& optimizer, const mezzo::detail::Function<Tensor()>& closure) {
  if (!closure)
    throw ValueError("GradScaler.step", "a closure", "an empty function", "call step(optimizer) without one");
  {
    const EnableGrad recording;
    static_cast<void>(closure());
  }
  return step(optimizer);
}

void GradScaler::refuse_evaluations() {
  throw StateError("GradScaler.step", "an optimizer whose steps do not compare losses",
                   "one that evaluates its closure several times and does",
                   "train in f32, or in a bf16 region without a scaler");
}

std::vector<const ScalerRecord*> GradScaler::found_records() const {
  std::vector<const ScalerRecord*> found;
  for (const PerOptimizer& state : per_optimizer_) {
    if (state.stage >= Stage::unscaled) found.push_back(record_in(state.record));
  }
  return found;
}

void GradScaler::start_iteration() {
  // Entries of optimizers that are no longer used must not pile up.
  std::erase_if(per_optimizer_, [](const PerOptimizer& state) { return state.stage == Stage::ready; });
  for (PerOptimizer& state : per_optimizer_) state.stage = Stage::ready;
}

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  if (!options_.enabled) return;
  const Phase phase("update");
  require_settled(op);
  const std::vector<const ScalerRecord*> found = found_records();
  if (found.empty()) {
    throw StateError(op, "an optimizer that was stepped or unscaled since the last update()", "none",
                     "call step(optimizer) before update()");
  }
  note_recording();
  kernels::update_scale(record_.device(), record_in(record_), found, rule_of(options_));
  start_iteration();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_settled("GradScaler.update");
  const auto value = static_cast<float>(new_scale);
  if (!(value > 0) || !std::isfinite(value)) {
    throw ValueError("GradScaler.update", "a positive, finite scale", number_text(new_scale),
                     "pass for example 65536.0");
  }
  detail::warn_below_1(value);
  kernels::set_scale(record_.device(), record_in(record_), found_records(), value);
  start_iteration();
}

void GradScaler::update(const Tensor& new_scale) {
  constexpr std::string_view op = "GradScaler.update";
  if (!options_.enabled) return;
  require_settled(op);
  if (!new_scale.defined())
    throw ValueError(op, "a scale", "an undefined tensor", "call update() to let the scale adapt");
  if (new_scale.numel() != 1)
    throw ShapeError(op, "one element", mezzo::to_string(new_scale.shape()), "pass a scalar");
  if (!(new_scale.device() == record_.device())) {
    throw DeviceError(op, mezzo::to_string(record_.device()), mezzo::to_string(new_scale.device()),
                      "use to(device)");
  }
  if (new_scale.requires_grad())
    throw AutogradError(op, "a scale without history", "one that requires grad", "use detach()");
  const NoGrad no_grad;
  const Tensor value = new_scale.to(DType::f32);
  kernels::set_scale_from(record_.device(), record_in(record_), found_records(),
                          static_cast<const float*>(value.impl().data()));
  start_iteration();
}

Tensor GradScaler::scale_tensor() const {
  if (!options_.enabled) return ones({});
  require_settled("GradScaler.scale_tensor");
  return copy_field(record_, offsetof(ScalerRecord, scale), DType::f32);
}

Tensor GradScaler::inv_scale_tensor() const {
  if (!options_.enabled) return ones({});
  require_settled("GradScaler.inv_scale_tensor");
  return copy_field(record_, offsetof(ScalerRecord, inv_scale), DType::f32);
}

Tensor GradScaler::steps_skipped_tensor() const {
  require_settled("GradScaler.steps_skipped_tensor");
  return copy_field(record_, offsetof(ScalerRecord, steps_skipped), DType::i64);
}

}  // namespace mezzo::amp
