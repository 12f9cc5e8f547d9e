// Averages of weights over the course of a training: EMA, the exponential moving average, and SWA, the mean.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "mezzo/core/scope.h"
#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"
#include "mezzo/optim/step_outcome.h"

namespace mezzo::optim {

/// Base of EMA and SWA. Averages of 16-bit tensors are f32, others have the tensor's dtype. Tensors that are
/// not floating (counters) are copied (torch averages those too). All is done on the tensors' device, and
/// nothing is read back.
class AveragedWeights : mezzo::detail::NoCopy {
 public:
  /// Takes the present weights into the averages; the first weights are copied. A step that a scaler has
  /// skipped does not count: `ema.update(scaler.step(optimizer))`.
  void update(const StepOutcome& outcome = {});
  /// Writes the averages into the weights, which loses what these were.
  void copy_to_weights() const;
  /// Copies of the averages under their weights' names.
  [[nodiscard]] NamedTensors averages() const;

  /// The averages in the place of the weights while it lives: for evaluation. Weights come back bit for bit,
  /// also after an exception. Must not outlive what made it; no optimizer may step meanwhile, and
  /// train::save_checkpoint refuses a model of averages.
  class Scope : mezzo::detail::NoCopy {
   public:
    explicit Scope(const AveragedWeights& average);
    ~Scope();

   private:
    const AveragedWeights& average_;
    std::vector<Tensor> weights_;
    std::vector<Ref<Storage>> memory_;  ///< of the averages' places
  };
  /// `{ const auto averaged = ema.average_weights(); evaluate(net); }`
  [[nodiscard]] Scope average_weights() const { return Scope(*this); }

  /// "n_averaged", i64, and "module." with each weight's name, as torch.optim.swa_utils.AveragedModel names
  /// them. They share storage with this object.
  [[nodiscard]] NamedTensors state_dict() const;
  /// Copies such tensors in. Throws: StateError for names that are missing or unknown, ShapeError,
  /// DTypeError; nothing has changed then.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// Throws: ValueError for no weights, undefined weights and an undefined or repeated name, DeviceError for
  /// two devices, ShapeError for weights whose elements share memory.
  AveragedWeights(std::string_view name, NamedTensors weights);
  virtual ~AveragedWeights() = default;
  /// The part of the new weights in the average, f64 0-dim, after `count` earlier updates (f64 0-dim, at
  /// least 1).
  [[nodiscard]] virtual Tensor part_of_new(const Tensor& count) const = 0;

 private:
  NamedTensors weights_;
  std::vector<Tensor> averages_;
  Tensor count_;  ///< updates so far, i64 0-dim on the device
};

/// Whether an AveragedWeights::Scope has an average in the place of this weight's values.
[[nodiscard]] bool holds_average(const Tensor& weight);

/// Parameters of a module, with its buffers if these are wanted.
template <class M>
[[nodiscard]] NamedTensors weights_of(const M& module, bool use_buffers) {
  NamedTensors weights = module.named_parameters();
  if (use_buffers) {
    for (auto& named : module.named_buffers()) weights.push_back(std::move(named));
  }
  return weights;
}

/// A module that lists its parameters and buffers.
template <class M>
concept HasWeights = requires(const M& module) {
  { module.named_parameters() } -> std::convertible_to<NamedTensors>;
  { module.named_buffers() } -> std::convertible_to<NamedTensors>;
};

struct EMAOptions {
  double decay = 0.999;      ///< of the average so far, in [0, 1]
  bool use_buffers = false;  ///< average the module's buffers too (statistics of batch norms)
};

/// Exponential moving average: decay * average + (1 - decay) * weights.
///   optim::EMA ema(net, {.decay = 0.999});
///   ema.update(scaler.step(optimizer));   // in every step
/// Throws: ValueError for a decay outside of [0, 1], and what AveragedWeights throws.
/// Source: torch.optim.swa_utils.get_ema_multi_avg_fn; Polyak and Juditsky, 1992.
class EMA final : public AveragedWeights {
 public:
  explicit EMA(const NamedTensors& weights, const EMAOptions& options = {});
  template <HasWeights M>
  explicit EMA(const M& module, const EMAOptions& options = {})
      : EMA(weights_of(module, options.use_buffers), options) {}

 private:
  [[nodiscard]] Tensor part_of_new(const Tensor& count) const override;
  double decay_;
};

struct SWAOptions {
  bool use_buffers = false;  ///< average the module's buffers too
};

/// Stochastic weight averaging: the mean of all weights that update() has seen.
/// Source: torch.optim.swa_utils.AveragedModel; Izmailov et al., arXiv:1803.05407.
class SWA final : public AveragedWeights {
 public:
  explicit SWA(const NamedTensors& weights) : AveragedWeights("SWA", weights) {}
  template <HasWeights M>
  explicit SWA(const M& module, const SWAOptions& options = {})
      : SWA(weights_of(module, options.use_buffers)) {}

 private:
  [[nodiscard]] Tensor part_of_new(const Tensor& count) const override;
};

}  // namespace mezzo::optim
