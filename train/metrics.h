// Running metrics of an evaluation or an epoch: sums that stay on the device of their inputs.
//   train::Accuracy accuracy;
//   for (const auto& [x, y] : loader) accuracy.update(net(x), y);
//   std::cout << accuracy.value();                               // the one host read
//
// Common contract. Names and definitions are torchmetrics'. The state of a metric is a few tensors on the
// device of the first update: counts in i64, sums in f64, so they stay exact over any number of updates.
// update() and compute() are ops without history: neither reads a value to the host, autocast does not change
// what they compute, and a captured step (amp::CapturedStep) that was warmed up before updates on each
// replay. Before anything was counted a value is NaN; counts are 0. Results are the same bits for any number
// of threads.
// Dtypes: predictions and values any, of which 16-bit tensors are widened before they are used; targets of
// classification integers or bools (DTypeError); results f64, counts i64.
// Throws: DeviceError for an update on another device than the first one's, ShapeError, DTypeError,
// ValueError for undefined tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/loss.h"

namespace mezzo::train {

/// Base of all metrics. One of a user's own says which sums it keeps, adds to them in its update(), and makes
/// a result of them in result().
class Metric {
 public:
  virtual ~Metric() = default;

  /// The value of all that was counted, on the metric's device; no host read. Shapes: 0-dim, but for those
  /// metrics that say otherwise.
  [[nodiscard]] Tensor compute() const;
  /// compute() as a number: one host read. Throws: ShapeError for a metric of several numbers.
  [[nodiscard]] double value() const;
  /// Forgets what was counted. The device stays, and so does the memory of the state.
  void reset();
  /// Counts what `other` counted as well, as if its updates had been made here; it stays as it is. Throws:
  /// ValueError for a metric of another kind or with other options.
  void merge(const Metric& other);
  /// The sums that make the state, on the metric's device: what ranks add up (all-reduce) before compute().
  /// Empty before the first update.
  [[nodiscard]] const std::vector<Tensor>& state() const& noexcept { return sums_; }
  [[nodiscard]] std::vector<Tensor> state() && { return std::move(sums_); }
  /// The state of nothing counted, on a device.
  [[nodiscard]] std::vector<Tensor> empty_state(Device device) const;
  /// "Accuracy": the name of the class, and in messages the op.
  [[nodiscard]] const std::string& name() const& noexcept { return name_; }
  [[nodiscard]] std::string name() && { return std::move(name_); }

 protected:
  /// One sum of the state: zeros of this shape at first.
  struct Sum {
    Shape shape;
    DType dtype;
  };
  /// `signature` tells metrics apart that must not be merged: options, in words.
  Metric(std::string name, std::string signature, std::vector<Sum> kinds)
      : name_(std::move(name)), signature_(std::move(signature)), kinds_(std::move(kinds)) {}
  Metric(Metric&&) = default;
  Metric& operator=(Metric&&) = default;

  /// Runs `add`, which writes to sum(i) in place: without history, outside of autocast, with the state on the
  /// device of `input`.
  template <class F>
  void count(const Tensor& input, F&& add) {
    count_on(input, mezzo::detail::Function<void()>([&add] { add(); }));
  }
  /// Sum i, inside of count().
  [[nodiscard]] const Tensor& sum(std::size_t i) const { return sums_[i]; }
  /// The result from the sums, on their device; called without history and outside of autocast. Default: the
  /// first divided by the second, in f64.
  [[nodiscard]] virtual Tensor result(const std::vector<Tensor>& sums) const;

 private:
  void count_on(const Tensor& input, const mezzo::detail::Function<void()>& add);
  void settle(Device device);

  std::string name_, signature_;
  std::vector<Sum> kinds_;
  std::vector<Tensor> sums_;
};

// --- of numbers (metrics/regression.cpp)

/// The weighted mean of all values: sum of weight times value by sum of weights. NaN among the values gives
/// NaN. Source: torchmetrics.MeanMetric.
class Mean final : public Metric {
 public:
  Mean();
  /// Counts each element. Shapes: `weight` broadcasts to `value`.
  void update(const Tensor& value, const Tensor& weight);
  void update(const Tensor& value, double weight = 1);
  /// A number; nothing is copied from the host where the state is on a device.
  void update(double value, double weight = 1);
};

struct MeanSquaredErrorOptions {
  bool squared = true;  ///< false: its square root (RMSE)
};
/// The mean of (prediction - target)^2 over all elements, differences taken in f64. Shapes: both the same.
/// Source: torchmetrics.MeanSquaredError.
class MeanSquaredError final : public Metric {
 public:
  explicit MeanSquaredError(MeanSquaredErrorOptions options = {});
  void update(const Tensor& preds, const Tensor& target);

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
  bool squared_;
};

/// The mean of |prediction - target|. Source: torchmetrics.MeanAbsoluteError.
class MeanAbsoluteError final : public Metric {
 public:
  MeanAbsoluteError();
  void update(const Tensor& preds, const Tensor& target);
};

/// 1 - sum (target - prediction)^2 / sum (target - mean target)^2 over all elements; NaN for fewer than two.
/// Targets whose mean is m times their deviation cost m^2 2^-53 of precision. Source: torchmetrics.R2Score.
class R2Score final : public Metric {
 public:
  R2Score();
  void update(const Tensor& preds, const Tensor& target);

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
};

struct PerplexityOptions {
  std::int64_t ignore_index = -100;  ///< tokens of this number do not count
};
/// exp(mean negative log likelihood per token). Source: torchmetrics.Perplexity.
class Perplexity final : public Metric {
 public:
  explicit Perplexity(PerplexityOptions options = {});
  /// Losses are computed in f32 (f64 for f64). Shapes: logits [.., vocabulary], target [..]. Throws:
  /// IndexError for a token outside of the vocabulary.
  void update(const Tensor& logits, const Tensor& target);
  /// The loss that a training step has computed anyway, over `tokens` tokens (those that are not ignored):
  /// their mean, or with Reduction::sum their sum. Throws: ShapeError unless both are one number, ValueError
  /// for Reduction::none.
  void update_loss(const Tensor& loss, std::int64_t tokens, Reduction reduction = Reduction::mean);
  void update_loss(const Tensor& loss, const Tensor& tokens, Reduction reduction = Reduction::mean);

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
  std::int64_t ignore_index_;
};

// --- of classes (metrics/classification.cpp)
//
// Predictions are scores (logits or probabilities) [N, C, d1, ..] for targets [N, d1, ..], of which the first
// largest counts, or classes: integers or bools of the target's shape. So a binary classifier with one logit
// gives `logit.ge(0)`. Positions whose target is ignore_index do not count.

struct AccuracyOptions {
  std::int64_t ignore_index = -100;
};
/// The share of predictions that are right (micro average). Source: torchmetrics.Accuracy.
class Accuracy final : public Metric {
 public:
  explicit Accuracy(AccuracyOptions options = {});
  void update(const Tensor& preds, const Tensor& target);

 private:
  std::int64_t ignore_index_;
};

/// The share of targets that are among the k classes of the largest scores. Shapes: scores only, of at least
/// k classes (ShapeError). Throws: ValueError for k < 1. Source: torchmetrics.Accuracy(top_k=k).
class TopKAccuracy final : public Metric {
 public:
  explicit TopKAccuracy(std::int64_t k, AccuracyOptions options = {});
  void update(const Tensor& preds, const Tensor& target);

 private:
  std::int64_t k_, ignore_index_;
};

/// The divisor of a confusion matrix's counts: nothing, the sum of their row, of their column, or of all.
enum class Normalize : std::uint8_t { none, by_target, by_prediction, all };
struct ConfusionMatrixOptions {
  Normalize normalize = Normalize::none;
  std::int64_t ignore_index = -100;
};
/// How often a target (row) was predicted as a class (column). Throws: ValueError for fewer than 1 or more
/// than 2^20 classes; IndexError for a class outside of [0, num_classes), with nothing counted (on a CUDA
/// device a fault, core/cuda/fault.h).
/// Shapes: compute() gives [num_classes, num_classes], i64 counts or f64 shares, which are 0 where there is
/// nothing to divide by.
/// Source: torchmetrics.ConfusionMatrix.
class ConfusionMatrix final : public Metric {
 public:
  explicit ConfusionMatrix(std::int64_t num_classes, ConfusionMatrixOptions options = {});
  void update(const Tensor& preds, const Tensor& target);

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
  std::int64_t classes_;
  ConfusionMatrixOptions options_;
};

/// How the scores of classes become one: of all decisions together (micro: the accuracy), their mean over the
/// classes that occur in targets or predictions (macro), their mean by the number of targets (weighted), that
/// of class 1 of two classes (binary; ValueError for another number of classes), or not at all (none:
/// compute() gives [num_classes]).
enum class Average : std::uint8_t { micro, macro, weighted, binary, none };
struct ClassScoreOptions {
  Average average = Average::macro;
  std::int64_t ignore_index = -100;
};
/// The counts of precision, recall and F1 for each class: how often it was right, predicted, and the target.
/// Throws: as ConfusionMatrix.
class ClassScore : public Metric {
 public:
  void update(const Tensor& preds, const Tensor& target);

 protected:
  /// Of each class from f64 counts; 0 where it divides by 0.
  using Score = Tensor (*)(const Tensor& right, const Tensor& predicted, const Tensor& targets);
  ClassScore(std::string name, std::int64_t num_classes, ClassScoreOptions options, Score score);

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const final;
  std::int64_t classes_;
  ClassScoreOptions options_;
  Score score_;
};
/// right / predicted. Source: torchmetrics.Precision.
class Precision final : public ClassScore {
 public:
  explicit Precision(std::int64_t num_classes, ClassScoreOptions options = {});
};
/// right / targets. Source: torchmetrics.Recall.
class Recall final : public ClassScore {
 public:
  explicit Recall(std::int64_t num_classes, ClassScoreOptions options = {});
};
/// 2 right / (predicted + targets), the harmonic mean of both; of masks the Dice score. Source:
/// torchmetrics.F1Score.
class F1Score final : public ClassScore {
 public:
  explicit F1Score(std::int64_t num_classes, ClassScoreOptions options = {});
};

/// right / (predicted + targets - right), the intersection over union (IoU). Source:
/// torchmetrics.JaccardIndex.
class JaccardIndex final : public ClassScore {
 public:
  explicit JaccardIndex(std::int64_t num_classes, ClassScoreOptions options = {});
};

struct ThresholdOptions {
  std::int64_t thresholds = 1000;  ///< i / (thresholds - 1), to which probabilities are rounded down
  std::int64_t ignore_index = -100;
};
/// Scores of a binary classifier over all thresholds: probabilities against targets of 0 and 1, counted per
/// threshold. Shapes: both the same. Throws: ValueError for fewer than 2 thresholds; IndexError for what is
/// no probability and for other targets, with nothing counted (on a CUDA device a fault).
class ThresholdScore : public Metric {
 public:
  /// `preds`: probabilities of 1, as sigmoid(logits).
  void update(const Tensor& preds, const Tensor& target);

 protected:
  ThresholdScore(std::string name, ThresholdOptions options);
  /// f64 [thresholds], from the highest on: targets of 1 and of 0 at each threshold, and all up to it.
  struct Curve {
    Tensor positives, negatives, true_positives, false_positives;
  };
  [[nodiscard]] Curve curve(const std::vector<Tensor>& sums) const;

 private:
  ThresholdOptions options_;
};
/// The area under the curve of true over false positive rates; 0 where all targets are alike. Source:
/// torchmetrics.AUROC(task="binary", thresholds=...).
class AUROC final : public ThresholdScore {
 public:
  explicit AUROC(ThresholdOptions options = {});

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
};
/// The sum over thresholds of precision times what recall grows by. Source:
/// torchmetrics.AveragePrecision(task="binary", thresholds=...).
class AveragePrecision final : public ThresholdScore {
 public:
  explicit AveragePrecision(ThresholdOptions options = {});

 private:
  [[nodiscard]] Tensor result(const std::vector<Tensor>& sums) const override;
};

}  // namespace mezzo::train
