// Loss functions: how far a prediction is from its target, reduced to one number. One header for the
// family. mse_loss, l1_loss and cross_entropy have a kernel for the loss and one for its gradient; all others
// but ctc_loss are compositions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// The reduction of the per-element losses: kept, averaged, or added up. The mean of no elements is NaN,
/// their sum 0. Sums are formed in f32 or wider, in a fixed order, and rounded once.
enum class Reduction : std::uint8_t { none, mean, sum };
template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<Reduction>{"none", "mean", "sum"};

// Common to all. Dtypes: inputs are floating (DTypeError), class indices apart. The result has the common
// dtype of x and a floating target, f32 under autocast, where losses with kernels of their own widen 16-bit
// inputs without a copy. Shapes: a `mean` or `sum` is 0-dim; `none` keeps one loss per target. All tensors
// are on one device. Errors name the op, the shapes and the fix.

/// (x - target)^2.
/// Shapes: x and target broadcast (ShapeError).
/// Source: torch.nn.functional.mse_loss.
[[nodiscard]] Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

/// |x - target|; the gradient where both are equal is 0.
/// Shapes: x and target broadcast (ShapeError).
/// Source: torch.nn.functional.l1_loss.
[[nodiscard]] Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

/// Options of nll_loss.
struct NllLossAttrs {
  std::int64_t ignore_index = -100;  ///< targets of this value add nothing to loss and mean
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(NllLossAttrs, ignore_index, reduction)
};

/// -weight[t] x[t] for log-probabilities x and class indices t. The mean divides by the sum of the weights of
/// the targets that count: NaN when there are none. Gradients reach x and weight.
/// Shapes: x [C], [N, C] or [N, C, d1, ..]; target [], [N] or [N, d1, ..]; weight [C] or undefined (1).
/// Dtypes: target i64, the others floating.
/// Throws: ShapeError, DTypeError, and IndexError for a target outside [0, C) that is not ignore_index,
/// before anything is computed. Source: torch.nn.functional.nll_loss.
[[nodiscard]] Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                              const NllLossAttrs& options = {});
[[nodiscard]] Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossAttrs& options = {});

/// Options of cross_entropy.
struct CrossEntropyAttrs {
  std::int64_t ignore_index = -100;  ///< class indices only: targets of this value add nothing
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  ///< in [0, 1]: the share of the target spread evenly over the classes
  MEZZO_FIELDS(CrossEntropyAttrs, ignore_index, reduction, label_smoothing)
};

/// -sum_c q_c weight_c log_softmax(x)_c over the class dim. The target is either class indices: q = (1 - s)
/// onehot(t) + s / C with s = label_smoothing, in one pass over the logits x, where no probabilities are
/// stored; or class probabilities p: q = (1 - s) p + s / C, a composition. The mean divides by the sum of
/// weights as in nll_loss for indices, by the number of rows for probabilities. Gradients reach x, weight and
/// probability targets.
/// Shapes: x, weight and class indices as for nll_loss; class probabilities as x.
/// Dtypes: class indices i64, the others floating. Computes in f32 (f64 for f64) throughout; under autocast
/// the result is f32.
/// Throws: as nll_loss, and ValueError for a label_smoothing outside [0, 1] or an ignore_index >= 0 with
/// probabilities. Source: torch.nn.functional.cross_entropy.
[[nodiscard]] Tensor cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   const CrossEntropyAttrs& options = {});
[[nodiscard]] Tensor cross_entropy(const Tensor& x, const Tensor& target,
                                   const CrossEntropyAttrs& options = {});

/// -weight (t max(log x, -100) + (1 - t) max(log(1 - x), -100)) for probabilities x in [0, 1]. The gradient
/// is weight (x - t) / max(x (1 - x), 1e-12).
/// Shapes: target x's (ShapeError); `weight` broadcasts to it or is undefined.
/// Throws: ValueError for an x outside [0, 1]; NaN passes through. Refused under autocast: a 16-bit gradient
/// cannot hold it. Source: torch.nn.functional.binary_cross_entropy.
[[nodiscard]] Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                          Reduction reduction = Reduction::mean);

/// weight ((1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))) for logits x, computed without overflow at
/// any x.
/// Shapes: target x's (ShapeError); `weight` and `pos_weight` broadcast to it or are undefined (1).
/// Source: torch.nn.functional.binary_cross_entropy_with_logits.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                                      const Tensor& weight = {},
                                                      const Tensor& pos_weight = {},
                                                      Reduction reduction = Reduction::mean);

// --- of single elements (loss/smooth.cpp, loss/likelihood.cpp, loss/margin.cpp). x and target are floating
// and broadcast (ShapeError); gradients reach both.

/// (x - t)^2 / (2 beta) where |x - t| < beta, |x - t| - beta / 2 elsewhere; l1_loss for beta = 0. Throws:
/// ValueError unless beta >= 0. Source: torch.nn.functional.smooth_l1_loss.
[[nodiscard]] Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                                    Reduction reduction = Reduction::mean, double beta = 1);
/// (x - t)^2 / 2 where |x - t| < delta, delta (|x - t| - delta / 2) elsewhere. Throws: ValueError unless
/// delta > 0. Source: torch.nn.functional.huber_loss.
[[nodiscard]] Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                                double delta = 1);
/// log(1 + exp(-t x)) for targets of 1 and -1, computed without overflow at any x. Source:
/// torch.nn.functional.soft_margin_loss.
[[nodiscard]] Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                                      Reduction reduction = Reduction::mean);
/// x where t = 1, max(0, margin - x) where t = -1 (both, added up, for other targets). Source:
/// torch.nn.functional.hinge_embedding_loss.
[[nodiscard]] Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                                          Reduction reduction = Reduction::mean);
/// max(0, margin - t (a - b)) for targets of 1 (a shall rank higher) and -1. Source:
/// torch.nn.functional.margin_ranking_loss.
[[nodiscard]] Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                         double margin = 0, Reduction reduction = Reduction::mean);

/// The reduction of kl_div's elements; `batchmean` divides their sum by x's first size, which is the
/// divergence per row.
enum class KlDivReduction : std::uint8_t { none, mean, sum, batchmean };
template <>
inline constexpr std::array<std::string_view, 4> kEnumNames<KlDivReduction>{"none", "mean", "sum",
                                                                            "batchmean"};
/// t (log t - x) for log-probabilities x and probabilities t, 0 t log 0 being 0; e^t (t - x) where the
/// targets are logarithms too. The gradient of a target of 0 leaves out log 0. Throws: ShapeError for the
/// batchmean of a 0-dim x. Source: torch.nn.functional.kl_div.
[[nodiscard]] Tensor kl_div(const Tensor& x, const Tensor& target,
                            KlDivReduction reduction = KlDivReduction::mean, bool log_target = false);

/// Options of poisson_nll_loss.
struct PoissonNllLossAttrs {
  bool log_input = true;  ///< x is the logarithm of the rate
  bool full = false;      ///< adds Stirling's approximation of log(t!) where t > 1
  double eps = 1e-8;      ///< added to x in log(x) when not log_input
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(PoissonNllLossAttrs, log_input, full, eps, reduction)
};
/// e^x - t x, or x - t log(x + eps) when not log_input. Source: torch.nn.functional.poisson_nll_loss.
[[nodiscard]] Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                                      const PoissonNllLossAttrs& options = {});

// --- of rows (loss/rows.cpp, loss/multi_margin.cpp). Differentiable in all floating inputs.

/// Of rows a and b: 1 - cos(a, b) where t = 1, max(0, cos(a, b) - margin) where t = -1, 0 elsewhere. Squared
/// norms get 1e-12 added.
/// Shapes: a and b [N, D], target [N]; or a and b [D], target [] (ShapeError otherwise).
/// Source: torch.nn.functional.cosine_embedding_loss.
[[nodiscard]] Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                           double margin = 0, Reduction reduction = Reduction::mean);

/// Options of triplet_margin_loss.
struct TripletMarginLossAttrs {
  double margin = 1;
  double p = 2;       ///< which norm
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< takes the distance of positive and negative where that is smaller
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(TripletMarginLossAttrs, margin, p, eps, swap, reduction)
};
/// max(0, margin + |a - positive + eps|_p - |a - negative + eps|_p) along the last dim.
/// Shapes: the three broadcast (ShapeError).
/// Source: torch.nn.functional.triplet_margin_loss.
[[nodiscard]] Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginLossAttrs& options = {});

/// Options of multi_margin_loss.
struct MultiMarginLossAttrs {
  std::int64_t p = 1;  ///< 1 or 2
  double margin = 1;
  Reduction reduction = Reduction::mean;
  MEZZO_FIELDS(MultiMarginLossAttrs, p, margin, reduction)
};
/// sum over classes c != t of weight[t] max(0, margin - x[t] + x[c])^p / C, for class indices t.
/// Shapes: x [N, C], target [N]; or x [C], target []; weight [C] or undefined (1).
/// Dtypes: target i64, the others floating.
/// Throws: ShapeError, DTypeError, IndexError for a target outside [0, C), ValueError for another p. Source:
/// torch.nn.functional.multi_margin_loss.
[[nodiscard]] Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                       const MultiMarginLossAttrs& options = {});
/// sum over target classes t and other classes c of max(0, 1 - x[t] + x[c]) / C. A row of the target lists
/// its classes, up to the first -1. All pairs are formed, so it takes memory for N C^2 elements.
/// Shapes: x [N, C] or [C]; target x's.
/// Dtypes: x floating, target integers.
/// Throws: ShapeError, DTypeError, and IndexError for a target outside [-1, C). Source:
/// torch.nn.functional.multilabel_margin_loss.
[[nodiscard]] Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                                            Reduction reduction = Reduction::mean);

// --- of sequences (loss/ctc.cpp)

/// Options of ctc_loss.
struct CtcLossAttrs {
  std::int64_t blank = 0;                 ///< the class that stands for no label
  Reduction reduction = Reduction::mean;  ///< the mean is of losses divided by their target lengths
  bool zero_infinity = false;             ///< samples without an alignment add 0, and get no gradient
  MEZZO_FIELDS(CtcLossAttrs, blank, reduction, zero_infinity)
};
/// -log of how likely frames spell a target: the sum over all alignments of the product of probabilities,
/// kept in f64. Infinite where a sample has too few frames. Takes the output of log_softmax: the gradient is
/// e^log_probs - (how likely a frame is a class in an alignment), as PyTorch's, right behind a log_softmax
/// only. The host reads the lengths.
/// Shapes: log_probs [T, N, C], targets [N, S], or all of them one after the other, lengths [N]; or log_probs
/// [T, C], targets [S], lengths [] or [1].
/// Dtypes: log_probs floating; the others i64 or i32 (DTypeError).
/// Throws: ShapeError; ValueError for lengths below 0 or longer than what there is, and for a blank that is
/// no class; IndexError for a target outside [0, C). Not twice differentiable. Source:
/// torch.nn.functional.ctc_loss.
[[nodiscard]] Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                              const Tensor& target_lengths, const CtcLossAttrs& options = {});
[[nodiscard]] Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const IntList& input_lengths,
                              const IntList& target_lengths, const CtcLossAttrs& options = {});

// --- with the reduction right behind the target, as mse_loss has it

[[nodiscard]] inline Tensor nll_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return nll_loss(x, target, NllLossAttrs{.reduction = reduction});
}
[[nodiscard]] inline Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduction reduction) {
  return cross_entropy(x, target, CrossEntropyAttrs{.reduction = reduction});
}
[[nodiscard]] inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, Reduction reduction) {
  return binary_cross_entropy(x, target, {}, reduction);
}
[[nodiscard]] inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                                             Reduction reduction) {
  return binary_cross_entropy_with_logits(x, target, {}, {}, reduction);
}
[[nodiscard]] inline Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return hinge_embedding_loss(x, target, 1, reduction);
}
[[nodiscard]] inline Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                                Reduction reduction) {
  return margin_ranking_loss(a, b, target, 0, reduction);
}
[[nodiscard]] inline Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return poisson_nll_loss(x, target, PoissonNllLossAttrs{.reduction = reduction});
}
[[nodiscard]] inline Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                                                  Reduction reduction) {
  return cosine_embedding_loss(a, b, target, 0, reduction);
}
[[nodiscard]] inline Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                                const Tensor& negative, Reduction reduction) {
  return triplet_margin_loss(anchor, positive, negative, TripletMarginLossAttrs{.reduction = reduction});
}
[[nodiscard]] inline Tensor multi_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return multi_margin_loss(x, target, {}, MultiMarginLossAttrs{.reduction = reduction});
}

}  // namespace mezzo
