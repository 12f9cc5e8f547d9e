// Algorithms: changes that a trainer makes to a training beyond its loop.
//   train::Trainer trainer({..., .algorithms = {train::algorithms::LabelSmoothing({.smoothing = 0.1}),
//                                               train::algorithms::EMA({.decay = 0.999})}});
// Common to all. An algorithm belongs to one trainer at a time. Random numbers are functions of a seed and of
// the batch, so a training that was stopped and resumed draws the same numbers. Options that make no sense
// throw ValueError in the constructor. Batches are data::Example or a pair of tensors, input and target,
// where an algorithm looks into them; one of another type throws ValueError (from fit(), as a CallbackError).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "mezzo/amp/norm_surgery.h"
#include "mezzo/data/functional.h"
#include "mezzo/data/transforms.h"
#include "mezzo/optim/averaged_weights.h"
#include "mezzo/train/callback.h"

namespace mezzo::train::algorithms {

// --- of norms

struct NormAlgorithmOptions {
  Event apply_at = Event::init;  ///< or before_load, after_load
  amp::NormSurgeryOptions surgery = {};
};
/// Base of the three algorithms: each calls a function of amp/norm_surgery.h at one event, whose report
/// becomes a text of the logger. State dicts have the same names before and after, so that it makes no
/// difference when a checkpoint was saved. Throws: ValueError for another apply_at.
class NormAlgorithm : public Callback {
 public:
  [[nodiscard]] bool match(Event event) const override { return event == options_.apply_at; }
  void run(Event event, State& state) override;

 protected:
  using Apply = decltype(&amp::apply_low_precision_layernorm);
  NormAlgorithm(std::string_view name, Apply apply, const NormAlgorithmOptions& options);

 private:
  Apply apply_;
  NormAlgorithmOptions options_;
};

/// amp::apply_low_precision_layernorm.
class LowPrecisionLayerNorm final : public NormAlgorithm {
 public:
  explicit LowPrecisionLayerNorm(const NormAlgorithmOptions& options = {})
      : NormAlgorithm("LowPrecisionLayerNorm", amp::apply_low_precision_layernorm, options) {}
};

/// amp::apply_low_precision_groupnorm.
class LowPrecisionGroupNorm final : public NormAlgorithm {
 public:
  explicit LowPrecisionGroupNorm(const NormAlgorithmOptions& options = {})
      : NormAlgorithm("LowPrecisionGroupNorm", amp::apply_low_precision_groupnorm, options) {}
};

/// amp::apply_fused_layernorm.
class FusedLayerNorm final : public NormAlgorithm {
 public:
  explicit FusedLayerNorm(const NormAlgorithmOptions& options = {})
      : NormAlgorithm("FusedLayerNorm", amp::apply_fused_layernorm, options) {}
};

// --- of gradients

struct GradientClippingOptions {
  std::optional<double> norm = {};   ///< the largest norm of all gradients together
  std::optional<double> value = {};  ///< the largest magnitude of an element
  double norm_type = 2;
};
/// Clips the gradients of the model after they were unscaled: optim::clip_grad_norm_, and logs "grad_norm",
/// the norm before; or optim::clip_grad_value_. Throws: ValueError unless exactly one limit is given, for one
/// that is negative or NaN, and for a norm_type of NaN. Source: composer.algorithms.GradientClipping.
class GradientClipping final : public detail::CallbackAt<Event::after_train_batch> {
 public:
  explicit GradientClipping(const GradientClippingOptions& options);
  void run(Event event, State& state) override;

 private:
  GradientClippingOptions options_;
};

// --- of weights

/// Base of EMA and SWA: an average that the training updates, and that takes the weights' place in
/// evaluations and predictions once something was averaged. Weights come back bit for bit when the evaluation
/// ends, also by an exception. Of several averages of one training the first stands in. A checkpoint holds
/// the average. After the training `ema->average().copy_to_weights()` keeps it, for a program that has given
/// the trainer a std::shared_ptr of the algorithm.
class WeightAverage
    : public detail::CallbackAt<Event::init, Event::batch_end, Event::epoch_end, Event::iteration_end,
                                Event::eval_start, Event::predict_start, Event::eval_end, Event::predict_end,
                                Event::before_load, Event::fit_start> {
 public:
  WeightAverage(WeightAverage&& other) noexcept = default;
  void run(Event event, State& state) override;
  [[nodiscard]] Parts parts() override;
  /// Throws: StateError before a trainer was made with it.
  [[nodiscard]] optim::AveragedWeights& average() const;

 protected:
  WeightAverage() = default;
  [[nodiscard]] virtual std::shared_ptr<optim::AveragedWeights> make(const nn::Module& model) = 0;
  /// At batch_end, epoch_end and iteration_end.
  virtual void update(Event event, const State& state) = 0;

 private:
  class Scope;
  std::shared_ptr<optim::AveragedWeights> average_;
  std::shared_ptr<Scope> scope_;
};

/// Exponential moving average of the weights, updated by every step that was not skipped. optim::EMA's
/// options. Source: composer.algorithms.EMA; optim::EMA.
class EMA final : public WeightAverage {
 public:
  explicit EMA(const optim::EMAOptions& options = {});
  [[nodiscard]] std::string identity() const override;

 private:
  [[nodiscard]] std::shared_ptr<optim::AveragedWeights> make(const nn::Module& model) override;
  void update(Event event, const State& state) override;
  optim::EMAOptions options_;
};

struct SWAOptions {
  Time start = "0.7dur";         ///< in any unit
  Time update_interval = "1ep";  ///< whenever time passes a multiple of this
  bool use_buffers = false;      ///< as optim::SWAOptions
};
/// Stochastic weight averaging: the mean of the weights at the ends of the batches (or epochs) in which time
/// has passed a multiple of update_interval, from `start` on. With an interval of one batch a skipped step
/// does not count. The learning rate is the schedule's business: give it one that ends high.
/// Throws: ValueError for an interval of 0. Source: composer.algorithms.SWA; optim::SWA.
class SWA final : public WeightAverage {
 public:
  explicit SWA(const SWAOptions& options = {});
  [[nodiscard]] Parts parts() override;
  [[nodiscard]] std::string identity() const override;

 private:
  [[nodiscard]] std::shared_ptr<optim::AveragedWeights> make(const nn::Module& model) override;
  void update(Event event, const State& state) override;
  SWAOptions options_;
  double seen_ = 0;  // time at the last look, in the interval's unit
};

struct LayerFreezingOptions {
  double start = 0.5;  ///< share of the training after which layers begin to freeze
  double level = 1;    ///< share of the layers that are frozen at its end
};
/// Freezes layers, from the model's first one on, as the training goes: floor(level * n * (progress - start)
/// / (1 - start)) of its n modules with parameters of their own, never the last one. Their parameters need no
/// gradient then and have none, so optimizers leave them as they are, weight decay and momentum included. A
/// parameter that several modules share freezes with the last of them. Buffers go on: a batch norm's
/// statistics follow the data. Layers that the program has frozen itself stay so.
///
/// Which layers are frozen is a function of State::progress(), so a resumed training freezes the same layers,
/// and a longer training (fit(duration)) thaws some. A captured step cannot follow: TrainerOptions::captured
/// is refused.
/// Throws: ValueError for a start outside of [0, 1) or a level outside of [0, 1].
/// Source: composer.algorithms.LayerFreezing; Brock et al., arXiv:1706.04983.
class LayerFreezing final : public detail::CallbackAt<Event::init, Event::before_train_batch> {
 public:
  explicit LayerFreezing(const LayerFreezingOptions& options = {});
  void run(Event event, State& state) override;
  /// Layers that are frozen now.
  [[nodiscard]] std::int64_t frozen() const noexcept { return frozen_; }

 private:
  LayerFreezingOptions options_;
  std::vector<std::vector<Tensor>> layers_;  // parameters that freeze with each
  std::int64_t frozen_ = 0;
};

/// Keeps of each call of the chosen layers its inputs only, and runs it again in backward: the same bits in
/// less memory and more time (nn::checkpoint_layers, at init). Surgery on these layers comes before it in the
/// list. The choice stays with the model when the trainer has
/// gone.
/// Throws: ValueError for an empty function, and from the trainer's constructor (as a CallbackError) when no
/// layer of the model is chosen. Source: Chen et al., arXiv:1604.06174.
class ActivationCheckpointing final : public detail::CallbackAt<Event::init> {
 public:
  using Matches = mezzo::detail::Function<bool(const nn::Module&)>;
  explicit ActivationCheckpointing(Matches matches);
  /// Of all layers of type T and of types derived from it:
  /// `ActivationCheckpointing::of<nn::TransformerEncoderLayer>()`.
  template <std::derived_from<nn::Module> T>
  [[nodiscard]] static ActivationCheckpointing of() {
    return ActivationCheckpointing(
        [](const nn::Module& module) { return dynamic_cast<const T*>(&module) != nullptr; });
  }
  void run(Event event, State& state) override;

 private:
  Matches matches_;
};

// --- of targets and batches

struct LabelSmoothingOptions {
  double smoothing = 0.1;  ///< the share that is spread evenly over the classes
};
/// The loss sees (1 - smoothing) target + smoothing / C: class indices become probabilities over the output's
/// C classes (dim 1), and probabilities (of MixUp) are smoothed likewise. For losses that take such targets,
/// as cross_entropy. Metrics see the targets as they were. Indices must lie in [0, C) (IndexError):
/// cross_entropy's own label_smoothing knows an ignore_index.
/// Throws: ValueError for a smoothing outside of [0, 1]; ShapeError for targets that do not fit the output.
/// Source: composer.algorithms.LabelSmoothing; Szegedy et al., arXiv:1512.00567.
class LabelSmoothing final : public detail::CallbackAt<Event::before_loss, Event::after_loss> {
 public:
  explicit LabelSmoothing(const LabelSmoothingOptions& options = {});
  void run(Event event, State& state) override;

 private:
  LabelSmoothingOptions options_;
  AnyBatch original_;
};

struct MixUpOptions {
  std::int64_t num_classes = 0;
  double alpha = 0.2;      ///< of Beta(alpha, alpha), of which the shares are drawn
  std::uint64_t seed = 0;  ///< another one draws other shares
};
/// Base of MixUp and CutMix: a transform of each batch of the train loader.
class MixedBatches : public detail::CallbackAt<Event::after_dataloader, Event::batch_end, Event::fit_start,
                                               Event::after_load> {
 public:
  void run(Event event, State& state) override;

 protected:
  using Transform = mezzo::detail::Function<data::Example(const data::Example& batch, data::Random& random)>;
  MixedBatches(const char* name, const MixUpOptions& options, std::uint64_t stream, Transform transform);

 private:
  Transform transform_;
  std::uint64_t seed_;
  std::uint64_t place_ = 0;  // of the batch among those of a step
};

/// data::MixUp of each training batch, whose targets become probabilities, f32 [N, num_classes]: for losses
/// that take such, as cross_entropy. Throws: ValueError for num_classes < 1 or alpha <= 0; DTypeError for
/// data that are not floating. Source: composer.algorithms.MixUp; Zhang et al., arXiv:1710.09412.
class MixUp final : public MixedBatches {
 public:
  explicit MixUp(const MixUpOptions& options);
};

struct CutMixOptions {
  std::int64_t num_classes = 0;
  double alpha = 1;
  std::uint64_t seed = 0;
};
/// data::CutMix likewise. Shapes: data [N, ..., H, W]. Source: composer.algorithms.CutMix; Yun et al.,
/// arXiv:1905.04899.
class CutMix final : public MixedBatches {
 public:
  explicit CutMix(const CutMixOptions& options);
};

struct ProgressiveResizingOptions {
  double initial_scale = 0.5;      ///< of height and width
  double delay_fraction = 0.5;     ///< of the training, at the initial scale
  double finetune_fraction = 0.2;  ///< of the training, at its end, at full size
  std::int64_t size_increment = 4;
  bool resize_targets = false;  ///< of [N, C, H, W] as well, by the nearest pixel
  data::ResizeOptions resize = {};
};
/// Trains on smaller images first: data::resize of each training batch to a scale that grows linearly from
/// initial_scale to 1 between the delay and the fine-tuning. Height and width are rounded to multiples of
/// size_increment, and never above the image's. For models that take images of any size. The scale is a
/// function of State::progress().
/// Shapes: data [N, C, H, W] (ShapeError).
/// Throws: ValueError for an initial_scale outside of (0, 1], fractions that are negative or above 1
/// together, and a size_increment < 1.
/// Source: composer.algorithms.ProgressiveResizing; fast.ai, "Training Imagenet in 3 hours".
class ProgressiveResizing final : public detail::CallbackAt<Event::after_dataloader> {
 public:
  explicit ProgressiveResizing(const ProgressiveResizingOptions& options = {});
  void run(Event event, State& state) override;

 private:
  ProgressiveResizingOptions options_;
};

/// Brings the images of each batch, all its tensors of 4 dims, into channels-last order in memory, in
/// training, evaluation and prediction; layers keep that order. Weights stay as they are: kernels arrange
/// them. Takes batches of any type that a loader knows (data/collate.h); others are left alone.
/// Source: composer.algorithms.ChannelsLast.
class ChannelsLast final : public detail::CallbackAt<Event::after_dataloader, Event::eval_batch_start,
                                                     Event::predict_batch_start> {
 public:
  void run(Event event, State& state) override;
};

}  // namespace mezzo::train::algorithms
