// Metrics of classes: what was predicted, what was right, counted per class by one scatter_add.
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/metrics.h"

namespace mezzo::train {

namespace {

constexpr std::int64_t kMostClasses = std::int64_t{1} << 20;

bool is_class_dtype(DType dtype) { return !is_floating(dtype); }

void require_targets(const Metric& metric, const Tensor& preds, const Tensor& target) {
  if (is_class_dtype(target.dtype())) return;
  if (target.dim() > 1 && target.shape() == preds.shape()) {
    throw DTypeError(metric.name(), "targets that are classes: integers or bools",
                     "probabilities " + to_string(target.shape()) + ", as MixUp and CutMix make them",
                     "use it in evaluations, or give their argmax(1)");
  }
  throw DTypeError(metric.name(), "targets that are classes: integers or bools",
                   std::string(info(target.dtype()).name), "cast them, or give their argmax");
}

/// Whether `preds` holds scores: floating, with a dim of classes behind the first.
bool are_scores(const Metric& metric, const Tensor& preds, const Tensor& target) {
  require_targets(metric, preds, target);
  if (!is_floating(preds.dtype())) {
    if (preds.shape() == target.shape()) return false;
  } else if (preds.dim() >= 1 && preds.dim() == target.dim() + 1) {
    Shape without = preds.shape();
    without.erase(preds.dim() == 1 ? 0 : 1);
    if (without == target.shape()) return true;
  }
  throw ShapeError(metric.name(), "scores [N, C, ..] or integer classes [N, ..] for targets [N, ..]",
                   to_string(preds.shape()) + " " + std::string(info(preds.dtype()).name) + " for " +
                       to_string(target.shape()),
                   "move the dim of the classes to place 1, or give classes");
}

std::int64_t class_dim(const Tensor& scores) { return scores.dim() == 1 ? 0 : 1; }

/// Classes of predictions of either form, i64.
Tensor classes_of(const Metric& metric, const Tensor& preds, const Tensor& target) {
  return are_scores(metric, preds, target) ? argmax(preds, class_dim(preds)) : preds.to(DType::i64);
}

std::string class_options(std::int64_t ignore_index) {
  return "ignore_index " + std::to_string(ignore_index);
}

/// `num_classes`, checked.
std::int64_t checked_classes(const std::string& name, std::int64_t num_classes) {
  if (num_classes >= 1 && num_classes <= kMostClasses) return num_classes;
  throw ValueError(name, "between 1 and " + std::to_string(kMostClasses) + " classes",
                   std::to_string(num_classes), "give the number of classes");
}

/// Adds 1 at each of the indices. Throws: IndexError that says what was expected.
void count_at(const Metric& metric, const Tensor& counts, const Tensor& index, const std::string& expected,
              const char* fix = "check targets and predictions, or set ignore_index") {
  try {
    counts.scatter_add_(0, index, ones(index.shape(), {.dtype = DType::i64, .device = index.device()}));
  } catch (const IndexError&) {
    throw IndexError(metric.name(), expected, "one outside", fix);
  }
}
std::string classes_below(std::int64_t classes) { return "classes in [0, " + std::to_string(classes) + ")"; }

/// Where 0 <= x < classes.
Tensor is_class(const Tensor& x, std::int64_t classes) { return logical_and(x.ge(0), x.lt(classes)); }

/// a / b in f64, and 0 where b is 0.
Tensor share(const Tensor& a, const Tensor& b) {
  return where(b.eq(0), 0.0, a.to(DType::f64) / b.to(DType::f64));
}

/// `value`, and NaN where nothing was counted.
Tensor nan_without(const Tensor& number, const Tensor& value) {
  return where(number.eq(0), std::numeric_limits<double>::quiet_NaN(), value);
}

}  // namespace

// Counts: right predictions, all predictions.
Accuracy::Accuracy(AccuracyOptions options)
    : Metric("Accuracy", "(" + class_options(options.ignore_index) + ")",
             {{{}, DType::i64}, {{}, DType::i64}}),
      ignore_index_(options.ignore_index) {}

void Accuracy::update(const Tensor& preds, const Tensor& target) {
  require_targets(*this, preds, target);
  count(target, [&] {
    const Tensor expected = target.to(DType::i64);
    const Tensor counts = expected.ne(ignore_index_);
    const Tensor right = classes_of(*this, preds, target).eq(expected);
    sum(0).add_(mezzo::sum(logical_and(right, counts)));
    sum(1).add_(mezzo::sum(counts));
  });
}

TopKAccuracy::TopKAccuracy(std::int64_t k, AccuracyOptions options)
    : Metric("TopKAccuracy", "(k " + std::to_string(k) + ", " + class_options(options.ignore_index) + ")",
             {{{}, DType::i64}, {{}, DType::i64}}),
      k_(k),
      ignore_index_(options.ignore_index) {
  if (k < 1)
    throw ValueError("TopKAccuracy", "k of at least 1", std::to_string(k), "give how many classes count");
}

void TopKAccuracy::update(const Tensor& preds, const Tensor& target) {
  if (!are_scores(*this, preds, target) || preds.size(class_dim(preds)) < k_) {
    throw ShapeError(name(), "scores of at least " + std::to_string(k_) + " classes",
                     to_string(preds.shape()) + " " + std::string(info(preds.dtype()).name),
                     "give logits, or a smaller k");
  }
  count(target, [&] {
    const std::int64_t dim = class_dim(preds);
    const Tensor expected = target.to(DType::i64);
    const Tensor counts = expected.ne(ignore_index_);
    const Tensor right = any(topk(preds, k_, dim).indices.eq(expected.unsqueeze(dim)), dim);
    sum(0).add_(mezzo::sum(logical_and(right, counts)));
    sum(1).add_(mezzo::sum(counts));
  });
}

// Counts of [target, prediction], row-major, and behind them of what is ignored.
ConfusionMatrix::ConfusionMatrix(std::int64_t num_classes, ConfusionMatrixOptions options)
    : Metric("ConfusionMatrix",
             "(" + std::to_string(num_classes) + " classes, " + class_options(options.ignore_index) + ")",
             {{{checked_classes("ConfusionMatrix", num_classes) * num_classes + 1}, DType::i64}}),
      classes_(num_classes),
      options_(options) {}

void ConfusionMatrix::update(const Tensor& preds, const Tensor& target) {
  require_targets(*this, preds, target);
  count(target, [&] {
    const Tensor t = target.to(DType::i64), p = classes_of(*this, preds, target);
    const Tensor valid = logical_and(is_class(t, classes_), is_class(p, classes_));
    const Tensor index = where(t.eq(options_.ignore_index), classes_ * classes_,
                               where(valid, t * classes_ + p, std::int64_t{-1}));
    count_at(*this, sum(0), index.reshape({index.numel()}), classes_below(classes_));
  });
}

Tensor ConfusionMatrix::result(const std::vector<Tensor>& sums) const {
  const Tensor counts = sums[0].narrow(0, 0, classes_ * classes_).reshape({classes_, classes_}).clone();
  switch (options_.normalize) {
    case Normalize::none:
      return counts;
    case Normalize::by_target:
      return share(counts, mezzo::sum(counts, {1}, true));
    case Normalize::by_prediction:
      return share(counts, mezzo::sum(counts, {0}, true));
    case Normalize::all:
      return share(counts, mezzo::sum(counts));
  }
  return counts;
}

// Counts per class: right, predicted, targets. Class `classes` of each holds what is ignored or wrong.
ClassScore::ClassScore(std::string name, std::int64_t num_classes, ClassScoreOptions options, Score score)
    : Metric(name,
             "(" + std::to_string(num_classes) + " classes, " + class_options(options.ignore_index) + ")",
             {{{3 * (checked_classes(name, num_classes) + 1)}, DType::i64}}),
      classes_(num_classes),
      options_(options),
      score_(score) {
  if (options.average == Average::binary && num_classes != 2) {
    throw ValueError(this->name(), "2 classes with Average::binary", std::to_string(num_classes),
                     "use another average");
  }
}

void ClassScore::update(const Tensor& preds, const Tensor& target) {
  require_targets(*this, preds, target);
  count(target, [&] {
    const Tensor t = target.to(DType::i64).reshape({target.numel()});
    const Tensor p = classes_of(*this, preds, target).reshape({target.numel()});
    const Tensor ignored = t.eq(options_.ignore_index);
    // A class outside of the range becomes -1, which count_at refuses.
    const auto place = [&](const Tensor& x, const Tensor& counts, std::int64_t block) {
      const std::int64_t begin = block * (classes_ + 1);
      return where(counts, where(is_class(x, classes_), x + begin, std::int64_t{-1}), begin + classes_);
    };
    const Tensor counts = logical_not(ignored);
    const Tensor index =
        cat({place(t, logical_and(counts, t.eq(p)), 0), place(p, counts, 1), place(t, counts, 2)});
    count_at(*this, sum(0), index, classes_below(classes_));
  });
}

Tensor ClassScore::result(const std::vector<Tensor>& sums) const {
  const Tensor table = sums[0].reshape({3, classes_ + 1}).narrow(1, 0, classes_).to(DType::f64);
  const Tensor right = table.select(0, 0), predicted = table.select(0, 1), targets = table.select(0, 2);
  const Tensor number = mezzo::sum(targets);
  const auto or_nan = [&](const Tensor& value) { return nan_without(number, value); };
  if (options_.average == Average::micro) {
    return or_nan(score_(mezzo::sum(right), mezzo::sum(predicted), number));
  }
  const Tensor scores = score_(right, predicted, targets);
  if (options_.average == Average::none) return or_nan(scores);
  if (options_.average == Average::binary) return or_nan(scores.select(0, 1));
  const Tensor weights =
      options_.average == Average::weighted ? targets : (predicted + targets).gt(0).to(DType::f64);
  return mezzo::sum(scores * weights) / mezzo::sum(weights);
}

Precision::Precision(std::int64_t num_classes, ClassScoreOptions options)
    : ClassScore("Precision", num_classes, options,
                 [](const Tensor& right, const Tensor& predicted, const Tensor& /*targets*/) {
                   return share(right, predicted);
                 }) {}

Recall::Recall(std::int64_t num_classes, ClassScoreOptions options)
    : ClassScore("Recall", num_classes, options,
                 [](const Tensor& right, const Tensor& /*predicted*/, const Tensor& targets) {
                   return share(right, targets);
                 }) {}

F1Score::F1Score(std::int64_t num_classes, ClassScoreOptions options)
    : ClassScore("F1Score", num_classes, options,
                 [](const Tensor& right, const Tensor& predicted, const Tensor& targets) {
                   return share(right * 2, predicted + targets);
                 }) {}

JaccardIndex::JaccardIndex(std::int64_t num_classes, ClassScoreOptions options)
    : ClassScore("JaccardIndex", num_classes, options,
                 [](const Tensor& right, const Tensor& predicted, const Tensor& targets) {
                   return share(right, predicted + targets - right);
                 }) {}

// Counts of [target, threshold], row-major, and behind them of what is ignored.
ThresholdScore::ThresholdScore(std::string name, ThresholdOptions options)
    : Metric(name,
             "(" + std::to_string(options.thresholds) + " thresholds, " +
                 class_options(options.ignore_index) + ")",
             {{{2 * checked_classes(name, options.thresholds) + 1}, DType::i64}}),
      options_(options) {
  if (options.thresholds < 2) {
    throw ValueError(this->name(), "at least 2 thresholds", std::to_string(options.thresholds),
                     "the default is 1000");
  }
}

void ThresholdScore::update(const Tensor& preds, const Tensor& target) {
  require_targets(*this, preds, target);
  if (!is_floating(preds.dtype()) || preds.shape() != target.shape()) {
    throw ShapeError(name(), "probabilities and targets of one shape",
                     to_string(preds.shape()) + " " + std::string(info(preds.dtype()).name) + " and " +
                         to_string(target.shape()),
                     "select the scores of class 1, and give sigmoid(logits)");
  }
  count(target, [&] {
    const std::int64_t n = options_.thresholds;
    const double last = static_cast<double>(n - 1);
    const Tensor p = preds.to(DType::f64).reshape({preds.numel()});
    const Tensor t = target.to(DType::i64).reshape({target.numel()});
    // Products are rounded, so the threshold is looked at again.
    const Tensor near = floor(p * last), above = ((near + 1.0) / last).le(p), below = (near / last).gt(p);
    const Tensor threshold = near.to(DType::i64) + above.to(DType::i64) - below.to(DType::i64);
    const Tensor valid = logical_and(logical_and(p.ge(0), p.le(1)), is_class(t, 2));
    const Tensor index =
        where(t.eq(options_.ignore_index), 2 * n, where(valid, t * n + threshold, std::int64_t{-1}));
    count_at(*this, sum(0), index, "probabilities in [0, 1] and targets of 0 and 1",
             "give sigmoid(logits), or set ignore_index");
  });
}

ThresholdScore::Curve ThresholdScore::curve(const std::vector<Tensor>& sums) const {
  const std::int64_t n = options_.thresholds;
  const Tensor counts = flip(sums[0].narrow(0, 0, 2 * n).reshape({2, n}), {1}).to(DType::f64);
  const Tensor from = cumsum(counts, 1);
  return {counts.select(0, 1), counts.select(0, 0), from.select(0, 1), from.select(0, 0)};
}

AUROC::AUROC(ThresholdOptions options) : ThresholdScore("AUROC", options) {}

Tensor AUROC::result(const std::vector<Tensor>& sums) const {
  // Trapezoids, one for each threshold: from 0, 0 on to 1, 1.
  const Curve c = curve(sums);
  const Tensor height = c.true_positives - c.positives * 0.5;
  const Tensor positives = mezzo::sum(c.positives), negatives = mezzo::sum(c.negatives);
  return nan_without(positives + negatives, share(mezzo::sum(c.negatives * height), positives * negatives));
}

AveragePrecision::AveragePrecision(ThresholdOptions options) : ThresholdScore("AveragePrecision", options) {}

Tensor AveragePrecision::result(const std::vector<Tensor>& sums) const {
  const Curve c = curve(sums);
  const Tensor precision = share(c.true_positives, c.true_positives + c.false_positives);
  const Tensor positives = mezzo::sum(c.positives);
  return nan_without(positives + mezzo::sum(c.negatives),
                     share(mezzo::sum(c.positives * precision), positives));
}

}  // namespace mezzo::train
