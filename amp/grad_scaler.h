// GradScaler: dynamic loss scaling without host syncs. The scale, found_inf and the counters live in one
// record on the device; this class is the state machine around it.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/core/value.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/step_outcome.h"

namespace mezzo::autograd {
class GradientLocks;
}

namespace mezzo::amp {

/// torch.amp.GradScaler's options, bounds for the scale, and what step() leaves in the gradients.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< good updates in a row before the scale grows
  bool enabled = true;
  /// Overflows in a row from which the scale is lowered; steps that overflow are skipped all the same.
  /// Source: Apex, update_scale_hysteresis; torch's rule is 1.
  std::int64_t hysteresis = 1;
  double min_scale = 0x1p-24;  ///< an overflow does not lower the scale below this; at_floor() tells
  double max_scale = 0x1.fffffep127;
  /// Whether step() leaves gradients divided by the scale, as torch's does. With false they stay as
  /// backward() made them, times the scale: for loops whose zero_grad() follows, which so save a write of
  /// every gradient. unscale_() divides in place whatever this says.
  bool write_unscaled = true;
};

/// Whether one step was made or skipped. Each question reads from the device; without one nothing is read. It
/// stays valid after later steps of the scaler.
class StepResult {
 public:
  StepResult() = default;
  /// `record`: a ScalerRecord as bytes on the device.
  explicit StepResult(Tensor record) : record_(std::move(record)) {}
  /// Whether the update was left out because a gradient was not finite. One host read; without a scaler (or
  /// with a disabled one) always false, and no read.
  [[nodiscard]] bool skipped() const;
  /// The first parameter whose gradient was not finite when the scaler looked, in unscale_ or step, whatever
  /// became of the gradients since (clipping by a norm of NaN makes all of them NaN):
  ///   if (const auto i = result.first_nonfinite()) std::cout << optimizer.parameter_name(*i);
  /// One host read; noting it costs ordinary steps nothing. Nothing when all were finite, or without a
  /// scaler.
  [[nodiscard]] std::optional<std::size_t> first_nonfinite() const;
  /// For a learning-rate scheduler, which reads it on the device: scheduler.step(scaler.step(optimizer)).
  operator optim::StepOutcome() const { return {record_}; }

 private:
  [[nodiscard]] ScalerRecord read() const;

  Tensor record_;
};

namespace detail {
/// Warns of a scale below 1. Called only where the host has read the scale for another reason.
void warn_below_1(double scale);
/// How often the factors, interval or bounds of a scaler were changed: captured updates cannot follow.
struct RuleChanges final : RefCounted {
  std::uint32_t count = 0;
};
}  // namespace detail

/// Scales losses so that small f16 gradients do not vanish, unscales the gradients, skips steps whose
/// gradients are not finite, and adapts the scale. One object per training run; any number of losses and
/// optimizers on one device, one update() at the end of each iteration:
///   scaler.scale(loss).backward();  scaler.step(optimizer);  scaler.update();
/// A whole step reads nothing back to the host. Calls in a wrong order throw StateError, which names the
/// missing or doubled call, and change nothing. With enabled = false every call passes through: scale returns
/// its argument, step steps. Gradients are checked as they are stored, before unscaling, and once: values
/// written to them between unscale_ and step are not checked again. Semantics: torch.amp.GradScaler, with >=
/// on the growth interval, bounds, bf16 gradients, and f16 gradients where the optimizer keeps f32 masters.
/// Not thread-safe.
class GradScaler {
 public:
  /// Throws: ValueError for growth_factor <= 1, backoff_factor outside (0, 1), growth_interval or hysteresis
  /// below 1, or a scale that is not positive and finite.
  explicit GradScaler(GradScalerOptions options = {});
  // Moves only: a copy would share the scale but not how far each optimizer is.
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;

  /// loss * scale, with history. The first call settles the device; DeviceError for a later one on another. A
  /// 0-dim f16 loss gives f32; an f16 tensor with dims stays f16, and overflows at the default scale. Throws:
  /// ValueError for an undefined tensor.
  [[nodiscard]] Tensor scale(const Tensor& loss);
  [[nodiscard]] std::vector<Tensor> scale(TensorList losses);

  /// Divides the optimizer's gradients by the scale, in place, and notes whether they are finite: for
  /// clipping or reading gradients before step. A 16-bit gradient whose parameter has an f32 master becomes
  /// f32, a new tensor, in which nothing underflows; step() uses it, later backwards add to it, and
  /// zero_grad() drops it. Throws: StateError when called twice or after step in one iteration, before
  /// scale(), or when no parameter has a gradient; DTypeError for an f16 gradient whose parameter has no f32
  /// master; ShapeError for an expanded gradient, whose elements share memory; DeviceError for an optimizer
  /// elsewhere.
  void unscale_(optim::Optimizer& optimizer);
  /// optimizer.step(), skipped on the device when a gradient is not finite. Unless unscale_ did, it unscales
  /// in the same pass: the update then sees 16-bit gradients before they are rounded, and a skipped step
  /// (any step, with write_unscaled = false) leaves gradients as they are. Throws: StateError when called
  /// twice in one iteration, and what unscale_ throws.
  StepResult step(optim::Optimizer& optimizer);
  /// step(optimizer) after `closure`, with recording on, has computed the gradients: it clears them, and
  /// calls backward on the scaled loss. (PyTorch refuses closures.) Throws: ValueError for an empty closure.
  StepResult step(optim::Optimizer& optimizer, const mezzo::detail::Function<Tensor()>& closure);
  /// The step of an optimizer that calls `closure` several times. All calls of a SAM step have one scale, and
  /// the step is skipped when a gradient of any is not finite. LBFGS, which compares losses, throws
  /// StateError, as a step that overflows has none to compare.
  template <class O>
  requires(!std::derived_from<O, optim::Optimizer>) StepResult
      step(O& optimizer, const mezzo::detail::Function<Tensor()>& closure) {
    if constexpr (requires { optimizer.evaluate(closure), optimizer.optimizer(); }) {
      static_cast<void>(optimizer.evaluate(closure, [&] { look_at(optimizer.optimizer()); }));
      return step(optimizer.optimizer());
    } else {
      if (options_.enabled) refuse_evaluations();
      optimizer.step(closure);
      return {};
    }
  }
  /// Adapts the scale to the infs and NaNs found since the last update, and starts a new iteration for every
  /// optimizer. Throws: StateError when nothing was unscaled or stepped since.
  void update();
  /// Sets the scale instead; the growth tracker stays. The tensor has one element on the scaler's device and
  /// no history, and is copied without a host read, hence taken as it is. Throws: StateError before scale(),
  /// ValueError for a number that is not positive and finite in f32, ShapeError, DeviceError, AutogradError.
  void update(double new_scale);
  void update(const Tensor& new_scale);

  /// Starts the iteration anew where one ended by an exception: what was unscaled or stepped since the last
  /// update is forgotten. The scale stays.
  void restart_iteration() { per_optimizer_.clear(); }

  [[nodiscard]] bool is_enabled() const noexcept { return options_.enabled; }
  /// A copy of the scale and of f32(1 / scale) on the device, 0-dim f32: for gradient penalties, without a
  /// host read. 1 on the CPU when disabled. Throws: StateError before scale().
  [[nodiscard]] Tensor scale_tensor() const;
  [[nodiscard]] Tensor inv_scale_tensor() const;
  /// A copy of steps_skipped() on the device, 0-dim i64, for loggers. Throws: StateError before scale() and
  /// when disabled.
  [[nodiscard]] Tensor steps_skipped_tensor() const;

  // Each of these is one host read once scale() was called.
  [[nodiscard]] double get_scale() const;  ///< 1 when disabled
  [[nodiscard]] std::int64_t growth_tracker() const;
  /// Iterations without and with a gradient that was not finite, one per update() however many optimizers.
  [[nodiscard]] std::int64_t steps_ok() const;
  [[nodiscard]] std::int64_t steps_skipped() const;
  [[nodiscard]] bool at_floor() const;  ///< the last update overflowed with the scale at min_scale already
  /// The scale, the counters and, at the floor, what that means: one line.
  [[nodiscard]] std::string report() const;

  [[nodiscard]] const GradScalerOptions& options() const noexcept { return options_; }
  /// Changes factors, interval, bounds or write_unscaled from the next update on; checked as in the
  /// constructor. init_scale and enabled must be as they were. A CapturedStep that was captured before throws
  /// when it is called next.
  void set_options(const GradScalerOptions& options);
  // Single options, under PyTorch's names.
  [[nodiscard]] double get_growth_factor() const noexcept { return options_.growth_factor; }
  [[nodiscard]] double get_backoff_factor() const noexcept { return options_.backoff_factor; }
  [[nodiscard]] std::int64_t get_growth_interval() const noexcept { return options_.growth_interval; }
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(std::int64_t interval);

  /// scale, growth_factor, backoff_factor, growth_interval, _growth_tracker as PyTorch names them, and
  /// min_scale, max_scale, steps_ok, steps_skipped. Empty when disabled. Take it after update().
  [[nodiscard]] Value state_dict() const;
  /// Restores a state_dict (one of PyTorch's will do) and starts a new iteration. Throws: StateError for an
  /// empty one, ValueError for bad or missing values; nothing has changed then. Does nothing when disabled.
  void load_state_dict(const Value& state);

 private:
  [[noreturn]] static void refuse_evaluations();
  enum class Stage : std::uint8_t { ready, looked_at, unscaled, stepped };  ///< in this order
  struct PerOptimizer {  ///< of one optimizer in this iteration
    std::uint64_t optimizer = 0;
    Stage stage = Stage::ready;
    Tensor record;
    std::size_t parameters = 0;  ///< that it had when its gradients were unscaled
  };

  void settle(Device device);
  /// For a graph that is being captured: its kernels have the record's address and the rule's numbers.
  void note_recording();
  void change_options(const GradScalerOptions& options);
  template <class T>
  void set_option(T GradScalerOptions::*option, T value);
  /// The record on the host (one host read), or the record that it will start as.
  [[nodiscard]] ScalerRecord read_record() const;
  void write_record(const ScalerRecord& host) const;
  void require_settled(std::string_view op) const;
  /// Throws like require_settled, but a loaded scale will do before the first scale().
  void require_scaled(std::string_view op, const optim::Optimizer& optimizer);
  PerOptimizer& state_of(const optim::Optimizer& optimizer);
  void begin(PerOptimizer& state, const optim::Optimizer& optimizer, std::string_view op);
  /// Notes in the optimizer's record whether its gradients are finite; its step comes later, with other
  /// gradients.
  void look_at(optim::Optimizer& optimizer);
  /// Locks the parameters, and notes nonfinite gradients in the record, a new one unless look_at made it.
  void check_gradients(PerOptimizer& state, const optim::Optimizer& optimizer,
                       autograd::GradientLocks& locks);
  /// Records of the optimizers that took part since the last update.
  [[nodiscard]] std::vector<const ScalerRecord*> found_records() const;
  void start_iteration();

  GradScalerOptions options_;
  ScalerRecord initial_;  ///< what the device's record starts as
  bool loaded_ = false;   ///< by load_state_dict
  Tensor record_;         ///< ScalerRecord as bytes on the device; undefined before the first scale()
  std::vector<PerOptimizer> per_optimizer_;
  Ref<detail::RuleChanges> changes_;  ///< made with the first capture
};

/// The first gradient of an optimizer that is not finite.
struct NonFinite {
  std::size_t index = 0;   ///< in Optimizer::parameters()
  std::string parameter;   ///< its name
  std::int64_t count = 0;  ///< elements that are inf or NaN
};
/// Looks through the gradients as they are now in order of the parameters; nothing when all are finite. Reads
/// to the host once per gradient. For training without a scaler, and to count: of a skipped step
/// StepResult::first_nonfinite() knows more cheaply, and also when clipping has made all gradients NaN.
[[nodiscard]] std::optional<NonFinite> find_nonfinite(const optim::Optimizer& optimizer);

}  // namespace mezzo::amp
