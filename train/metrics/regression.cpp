// Metrics of numbers: means, errors, perplexity.

#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/train/metrics.h"

namespace mezzo::train {

namespace {

constexpr DType kSum = DType::f64, kCount = DType::i64;

Tensor total(const Tensor& x) { return mezzo::sum(x, {}, false, kSum); }

void require_same_shape(const Metric& metric, const Tensor& preds, const Tensor& target) {
  if (preds.shape() == target.shape()) return;
  throw ShapeError(metric.name(), "predictions and targets of one shape",
                   to_string(preds.shape()) + " and " + to_string(target.shape()),
                   "squeeze or reshape one of them");
}

/// prediction - target in f64.
Tensor difference(const Tensor& preds, const Tensor& target) { return preds.to(kSum) - target.to(kSum); }

}  // namespace

// Sums: of weight times value, of weights.
Mean::Mean() : Metric("Mean", "()", {{{}, kSum}, {{}, kSum}}) {}

void Mean::update(const Tensor& value, const Tensor& weight) {
  count(value, [&] {
    const Tensor w = expand(weight.to(kSum), value.shape());
    const Tensor weighted = total(value.to(kSum) * w);
    sum(1).add_(total(w));
    sum(0).add_(weighted);
  });
}

void Mean::update(const Tensor& value, double weight) {
  count(value, [&] {
    const Tensor values = total(value);
    sum(0).add_(values, weight);
    sum(1).add_(weight * static_cast<double>(value.numel()));
  });
}

void Mean::update(double value, double weight) {
  const auto add = [&] {
    sum(0).add_(value * weight);
    sum(1).add_(weight);
  };
  count(state().empty() ? zeros({}) : sum(0), add);
}

// Sums: of squared (absolute) differences, of elements.
MeanSquaredError::MeanSquaredError(MeanSquaredErrorOptions options)
    : Metric("MeanSquaredError", options.squared ? "(squared)" : "(root)", {{{}, kSum}, {{}, kCount}}),
      squared_(options.squared) {}

void MeanSquaredError::update(const Tensor& preds, const Tensor& target) {
  require_same_shape(*this, preds, target);
  count(preds, [&] {
    sum(0).add_(total(difference(preds, target).square()));
    sum(1).add_(preds.numel());
  });
}

Tensor MeanSquaredError::result(const std::vector<Tensor>& sums) const {
  const Tensor mean = Metric::result(sums);
  return squared_ ? mean : mean.sqrt();
}

MeanAbsoluteError::MeanAbsoluteError() : Metric("MeanAbsoluteError", "()", {{{}, kSum}, {{}, kCount}}) {}

void MeanAbsoluteError::update(const Tensor& preds, const Tensor& target) {
  require_same_shape(*this, preds, target);
  count(preds, [&] {
    sum(0).add_(total(difference(preds, target).abs()));
    sum(1).add_(preds.numel());
  });
}

// Sums: of squared differences, of targets, of their squares, of elements.
R2Score::R2Score() : Metric("R2Score", "()", {{{}, kSum}, {{}, kSum}, {{}, kSum}, {{}, kCount}}) {}

void R2Score::update(const Tensor& preds, const Tensor& target) {
  require_same_shape(*this, preds, target);
  count(preds, [&] {
    const Tensor exact = target.to(kSum);
    sum(0).add_(total(difference(preds, target).square()));
    sum(1).add_(total(exact));
    sum(2).add_(total(exact.square()));
    sum(3).add_(preds.numel());
  });
}

Tensor R2Score::result(const std::vector<Tensor>& sums) const {
  const Tensor n = sums[3].to(kSum);
  const Tensor deviation = sums[2] - sums[1] * (sums[1] / n);
  return where(n.lt(2), std::nan(""), 1 - sums[0] / deviation);
}

// Sums: of losses, of tokens.
Perplexity::Perplexity(PerplexityOptions options)
    : Metric("Perplexity", "(ignore_index " + std::to_string(options.ignore_index) + ")",
             {{{}, kSum}, {{}, kCount}}),
      ignore_index_(options.ignore_index) {}

void Perplexity::update(const Tensor& logits, const Tensor& target) {
  Shape rows_of = target.shape();
  rows_of.push_back(logits.dim() == 0 ? 0 : logits.size(-1));
  if (logits.shape() != rows_of) {
    throw ShapeError(name(), "logits [.., vocabulary] and targets [..]",
                     to_string(logits.shape()) + " and " + to_string(target.shape()),
                     "move the dim of the vocabulary to the end");
  }
  count(logits, [&] {
    const Tensor rows = logits.reshape({target.numel(), logits.size(-1)});
    const Tensor tokens = target.reshape({target.numel()}).to(kCount);
    const Tensor losses = cross_entropy(is_16bit(rows.dtype()) ? rows.to(DType::f32) : rows, tokens,
                                        {.ignore_index = ignore_index_, .reduction = Reduction::none});
    sum(0).add_(total(losses));
    sum(1).add_(mezzo::sum(tokens.ne(ignore_index_)));
  });
}

void Perplexity::update_loss(const Tensor& loss, const Tensor& tokens, Reduction reduction) {
  if (loss.numel() != 1 || tokens.numel() != 1) {
    throw ShapeError(name() + ".update_loss", "a loss and a number of tokens of one element each",
                     to_string(loss.shape()) + " and " + to_string(tokens.shape()),
                     "reduce them by mean or sum");
  }
  if (reduction == Reduction::none) {
    throw ValueError(name() + ".update_loss", "Reduction::mean or sum", "none",
                     "say how the loss was reduced");
  }
  count(loss, [&] {
    const Tensor number = tokens.reshape({}).to(loss.device());
    const Tensor value = loss.reshape({}).to(kSum);
    // The mean of no tokens is NaN, and counts as nothing.
    sum(0).add_(reduction == Reduction::sum ? value : where(number.eq(0), 0.0, value * number.to(kSum)));
    sum(1).add_(number.to(kCount));
  });
}

void Perplexity::update_loss(const Tensor& loss, std::int64_t tokens, Reduction reduction) {
  if (tokens < 0) {
    throw ValueError(name() + ".update_loss", "a number of tokens of at least 0", std::to_string(tokens),
                     "count the targets");
  }
  const Tensor number = full({}, tokens, {.dtype = kCount, .device = loss.device()});
  update_loss(loss, number, reduction);
}

Tensor Perplexity::result(const std::vector<Tensor>& sums) const { return exp(Metric::result(sums)); }

}  // namespace mezzo::train
