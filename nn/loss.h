// Loss functions as modules: they hold the options and class weights, which move with the model. The
// functions, their formulas, shapes and errors are in ops/loss.h.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/loss.h"

namespace mezzo::nn {

/// A module that compares a prediction with its target.
class Loss : public Module {
 public:
  [[nodiscard]] virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
};

/// `mse_loss`: (input - target)^2.
class MSELoss final : public Loss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  Reduction reduction_;
};

/// `l1_loss`: |input - target|.
class L1Loss final : public Loss {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  Reduction reduction_;
};

/// Options of NLLLoss; see ops/loss.h.
struct NLLLossOptions {
  Tensor weight = {};  ///< of each class, [C]; undefined: 1
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// `nll_loss` of log-probabilities.
class NLLLoss final : public Loss {
 public:
  explicit NLLLoss(const NLLLossOptions& options = {})
      : weight(*this, "weight", options.weight), options_{options.ignore_index, options.reduction} {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

  Buffer weight;

 private:
  NllLossAttrs options_;
};

/// Options of CrossEntropyLoss; see ops/loss.h.
struct CrossEntropyLossOptions {
  Tensor weight = {};  ///< of each class, [C]; undefined: 1
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};

/// `cross_entropy` of logits, with class indices or probabilities as target.
class CrossEntropyLoss final : public Loss {
 public:
  explicit CrossEntropyLoss(const CrossEntropyLossOptions& options = {})
      : weight(*this, "weight", options.weight),
        options_{options.ignore_index, options.reduction, options.label_smoothing} {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

  Buffer weight;

 private:
  CrossEntropyAttrs options_;
};

/// Options of BCELoss.
struct BCELossOptions {
  Tensor weight = {};  ///< of each element, broadcasts to the input; undefined: 1
  Reduction reduction = Reduction::mean;
};

/// `binary_cross_entropy` of probabilities.
class BCELoss final : public Loss {
 public:
  explicit BCELoss(const BCELossOptions& options = {})
      : weight(*this, "weight", options.weight), reduction_(options.reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

  Buffer weight;

 private:
  Reduction reduction_;
};

/// Options of BCEWithLogitsLoss.
struct BCEWithLogitsLossOptions {
  Tensor weight = {};      ///< of each element, broadcasts to the input; undefined: 1
  Tensor pos_weight = {};  ///< of positive targets, the same way
  Reduction reduction = Reduction::mean;
};

/// `binary_cross_entropy_with_logits`: the one for mixed precision.
class BCEWithLogitsLoss final : public Loss {
 public:
  explicit BCEWithLogitsLoss(const BCEWithLogitsLossOptions& options = {})
      : weight(*this, "weight", options.weight),
        pos_weight(*this, "pos_weight", options.pos_weight),
        reduction_(options.reduction) {}
  [[nodiscard]] Tensor forward(const Tensor& input, const Tensor& target) override;

  Buffer weight;
  Buffer pos_weight;

 private:
  Reduction reduction_;
};

}  // namespace mezzo::nn
