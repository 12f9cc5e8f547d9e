// Loss functions as modules: they hold the options and class weights, which move with the model. The
// functions, their formulas, shapes and errors are in ops/loss.h.
#pragma once

#include <tuple>
#include <type_traits>

#include "mezzo/nn/module.h"
#include "mezzo/ops/loss.h"

namespace mezzo::nn {

/// A module that compares a prediction with its target.
class Loss : public Module {
 public:
  Loss() = default;
  Loss(const Loss& other) = default;
  ~Loss() override;
  [[nodiscard]] virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  /// Whether the mean of forward divides by what its target says (mean_divisor), and not by its samples.
  [[nodiscard]] virtual bool weighs_targets() const { return false; }
  /// The divisor then, f64, 0-dim, on the target's device: the mean over a batch is the mean of its parts'
  /// losses, weighed by their divisors. Undefined where weighs_targets() is false.
  [[nodiscard]] virtual Tensor mean_divisor(const Tensor& target) const;
  /// forward(input, target), seen by observers (nn/call.h).
  [[nodiscard]] Tensor operator()(const Tensor& input, const Tensor& target) {
    return call(*this, input, target);
  }
};

/// A loss whose options are the arguments of `F` behind its two tensors.
template <auto F>
class LossOf;
template <class... Options, Tensor (*F)(const Tensor&, const Tensor&, Options...)>
class LossOf<F> : public Loss {
 public:
  explicit LossOf(Options... options) : options_(options...) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override {
    return std::apply([&](const auto&... options) { return F(input, target, options...); }, options_);
  }

 private:
  std::tuple<Options...> options_;
};

/// A loss `F` with a weight of each class or element, and the options behind it.
template <class Options, Tensor (*F)(const Tensor&, const Tensor&, const Tensor&, Options)>
class WeightedLoss : public Loss {
 public:
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override {
    return F(input, target, weight, options_);
  }

  Buffer weight;

 protected:
  WeightedLoss(const Tensor& value, Options options) : weight(*this, "weight", value), options_(options) {}
  std::remove_cvref_t<Options> options_;
};

/// `mse_loss`: (input - target)^2.
class MSELoss final : public LossOf<mse_loss> {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : LossOf(reduction) {}
};

/// `l1_loss`: |input - target|.
class L1Loss final : public LossOf<l1_loss> {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : LossOf(reduction) {}
};

/// Options of NLLLoss; see ops/loss.h.
struct NLLLossOptions {
  Tensor weight = {};  ///< of each class, [C]; undefined: 1
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// `nll_loss` of log-probabilities.
class NLLLoss final : public WeightedLoss<const NllLossAttrs&, nll_loss> {
 public:
  using Options = NLLLossOptions;
  explicit NLLLoss(const NLLLossOptions& options = {})
      : WeightedLoss(options.weight, {options.ignore_index, options.reduction}) {}
  [[nodiscard]] bool weighs_targets() const override { return options_.reduction == Reduction::mean; }
  /// The sum of the weights of the targets that are not ignored.
  [[nodiscard]] Tensor mean_divisor(const Tensor& target) const override;
};

/// Options of CrossEntropyLoss; see ops/loss.h.
struct CrossEntropyLossOptions {
  Tensor weight = {};  ///< of each class, [C]; undefined: 1
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};

/// `cross_entropy` of logits, with class indices or probabilities as target.
class CrossEntropyLoss final : public WeightedLoss<const CrossEntropyAttrs&, cross_entropy> {
 public:
  using Options = CrossEntropyLossOptions;
  explicit CrossEntropyLoss(const CrossEntropyLossOptions& options = {})
      : WeightedLoss(options.weight, {options.ignore_index, options.reduction, options.label_smoothing}) {}
  [[nodiscard]] bool weighs_targets() const override { return options_.reduction == Reduction::mean; }
  /// The sum of the weights of the targets that are not ignored; of probabilities their rows.
  [[nodiscard]] Tensor mean_divisor(const Tensor& target) const override;
};

/// Options of BCELoss.
struct BCELossOptions {
  Tensor weight = {};  ///< of each element, broadcasts to the input; undefined: 1
  Reduction reduction = Reduction::mean;
};

/// `binary_cross_entropy` of probabilities.
class BCELoss final : public WeightedLoss<Reduction, binary_cross_entropy> {
 public:
  using Options = BCELossOptions;
  explicit BCELoss(const BCELossOptions& options = {}) : WeightedLoss(options.weight, options.reduction) {}
};

/// Options of BCEWithLogitsLoss.
struct BCEWithLogitsLossOptions {
  Tensor weight = {};      ///< of each element, broadcasts to the input; undefined: 1
  Tensor pos_weight = {};  ///< of positive targets, the same way
  Reduction reduction = Reduction::mean;
};

/// `binary_cross_entropy_with_logits`: the form for mixed precision.
class BCEWithLogitsLoss final : public Loss {
 public:
  using Options = BCEWithLogitsLossOptions;
  explicit BCEWithLogitsLoss(const BCEWithLogitsLossOptions& options = {})
      : weight(*this, "weight", options.weight),
        pos_weight(*this, "pos_weight", options.pos_weight),
        reduction_(options.reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override {
    return binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction_);
  }

  Buffer weight;
  Buffer pos_weight;

 private:
  Reduction reduction_;
};

/// `smooth_l1_loss`: a square within beta, linear beyond.
class SmoothL1Loss final : public LossOf<smooth_l1_loss> {
 public:
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1) : LossOf(reduction, beta) {}
};

/// `huber_loss`: a square within delta, linear beyond.
class HuberLoss final : public LossOf<huber_loss> {
 public:
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1) : LossOf(reduction, delta) {}
};

/// `soft_margin_loss`: log(1 + exp(-target input)).
class SoftMarginLoss final : public LossOf<soft_margin_loss> {
 public:
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean) : LossOf(reduction) {}
};

/// `kl_div`: divergence of log-probabilities from target probabilities.
class KLDivLoss final : public LossOf<kl_div> {
 public:
  explicit KLDivLoss(KlDivReduction reduction = KlDivReduction::mean, bool log_target = false)
      : LossOf(reduction, log_target) {}
};

/// `hinge_embedding_loss`: of distances, for targets of 1 and -1.
class HingeEmbeddingLoss final : public Loss {
 public:
  explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override {
    return hinge_embedding_loss(input, target, margin_, reduction_);
  }

 private:
  double margin_;
  Reduction reduction_;
};

/// `multilabel_margin_loss`: targets list the classes of each row.
class MultiLabelMarginLoss final : public LossOf<multilabel_margin_loss> {
 public:
  explicit MultiLabelMarginLoss(Reduction reduction = Reduction::mean) : LossOf(reduction) {}
};

/// `poisson_nll_loss` of rates, or their logarithms.
class PoissonNLLLoss final : public Loss {
 public:
  explicit PoissonNLLLoss(const PoissonNllLossAttrs& options = {}) : options_(options) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override {
    return poisson_nll_loss(input, target, options_);
  }

 private:
  PoissonNllLossAttrs options_;
};

/// Options of MultiMarginLoss; see ops/loss.h.
struct MultiMarginLossOptions {
  std::int64_t p = 1;
  double margin = 1;
  Tensor weight = {};  ///< of each class, [C]; undefined: 1
  Reduction reduction = Reduction::mean;
};

/// `multi_margin_loss` of scores, with class indices as target.
class MultiMarginLoss final : public WeightedLoss<const MultiMarginLossAttrs&, multi_margin_loss> {
 public:
  using Options = MultiMarginLossOptions;
  explicit MultiMarginLoss(const MultiMarginLossOptions& options = {})
      : WeightedLoss(options.weight, {options.p, options.margin, options.reduction}) {}
};

// --- of more than two tensors

/// `cosine_embedding_loss` of pairs of rows.
class CosineEmbeddingLoss final : public Module {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) const {
    return cosine_embedding_loss(input1, input2, target, margin_, reduction_);
  }

 private:
  double margin_;
  Reduction reduction_;
};

/// `margin_ranking_loss` of pairs of scores.
class MarginRankingLoss final : public Module {
 public:
  explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) const {
    return margin_ranking_loss(input1, input2, target, margin_, reduction_);
  }

 private:
  double margin_;
  Reduction reduction_;
};

/// `triplet_margin_loss` of rows.
class TripletMarginLoss final : public Module {
 public:
  explicit TripletMarginLoss(const TripletMarginLossAttrs& options = {}) : options_(options) {}
  [[nodiscard]] Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options_);
  }

 private:
  TripletMarginLossAttrs options_;
};

/// `ctc_loss` of log-probabilities of frames.
class CTCLoss final : public Module {
 public:
  using Options = CtcLossAttrs;
  explicit CTCLoss(const CtcLossAttrs& options = {}) : options_(options) {}
  [[nodiscard]] Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                               const Tensor& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }
  [[nodiscard]] Tensor forward(const Tensor& log_probs, const Tensor& targets, const IntList& input_lengths,
                               const IntList& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }

 private:
  CtcLossAttrs options_;
};

}  // namespace mezzo::nn
