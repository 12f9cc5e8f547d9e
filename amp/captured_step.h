// CapturedStep: a whole training step as one CUDA graph, so that the host pays once for launching dozens of
// small kernels.
#pragma once

#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"

namespace mezzo::amp {

/// Runs a training step again and again; on a CUDA device it is captured into a CUDA graph and replayed.
///
///   CapturedStep step(device, [&] {                       // the loop's body, as it would be written anyway
///     optimizer.zero_grad();
///     Tensor loss;
///     { amp::Autocast autocast(device, DType::f16); loss = mse_loss(net(input), target); }
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
///     return loss;
///   });
///   for (...) { input.copy_(batch.x); target.copy_(batch.y); step(); }
///
/// The first calls run the step as it is, which makes optimizer states, gradients and 16-bit copies; the next
/// call captures it; all later calls replay. Every call is one step, with the bits of the step run eagerly,
/// skips of the scaler included. On the CPU every call runs it eagerly.
///
/// What the step reads must stay where it is: new data is copied into the same tensors, and a learning rate
/// changes by Optimizer::set_lr. Host code of the step (printing, counters) runs in the calls up to the one
/// that captures, and not in replays. The step must not read a value back to the host or change shapes.
///
/// Between calls weights may be written and evaluated, states of module, optimizer, scaler and schedule
/// loaded, rates set, and eager steps made: the next call still does what the eager step would. A call that
/// cannot throws StateError, and nothing of it has run (docs/cuda.md, "Captured steps").
///
/// Memory: keep model, optimizer, scaler and input tensors as long as the step, and do not give parameters
/// other memory (Module::to). Memory that the step itself allocates or frees stays with it. Call zero_grad()
/// at the beginning of the step: later in the step it frees gradients whose memory the graph then has to
/// keep.
///
/// Random numbers: a replay draws what an eager call would have drawn from the same generators at that time,
/// so draws and seeding between calls have their effect. A step that draws on the host (randperm, CPU
/// tensors) or seeds a generator throws StateError when it is captured (core/random.h).
class CapturedStep : mezzo::detail::NoCopy {
 public:
  /// `warmup` (at least 1): calls that run the step eagerly before it is captured. Nothing runs yet. Throws:
  /// ValueError for a warmup below 1 or an empty step, DeviceError for a device that is not there.
  CapturedStep(Device device, mezzo::detail::Function<Tensor()> step, int warmup = 3);
  ~CapturedStep();

  /// One step. Returns what the step returned (the loss, say): once captured, the same tensor with new values
  /// each time. Throws: what the step throws; StateError when capture fails (it names what cannot be
  /// captured) or when a replay would not be the step any more; nothing of the step has run then.
  const Tensor& operator()();
  /// Whether calls replay a captured step.
  [[nodiscard]] bool is_recorded() const noexcept;

 private:
  struct State;
  State* state_;  // owned
};

}  // namespace mezzo::amp
