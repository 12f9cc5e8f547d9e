// Loss functions: how far a prediction is from its target, reduced to one number. One header for the family;
// the descriptors stand in loss_regression.cpp, loss_classification.cpp and loss_binary.cpp, and each has a
// backward op of one fused pass.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "mezzo/autograd/attrs.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

/// What becomes of the per-element losses: kept, averaged, or added up. The mean of no elements is NaN, their
/// sum 0. Sums are formed in f32 or wider, in a fixed order, and rounded once.
enum class Reduction : std::uint8_t { none, mean, sum };
template <>
inline constexpr std::array<std::string_view, 3> kEnumNames<Reduction>{"none", "mean", "sum"};

// Common to all: inputs are floating (DTypeError) and on one device. The result has the common dtype of x and
// a floating target, f32 under autocast, where 16-bit inputs are widened by the kernel and no copy of them is
// made. A `mean` or `sum` is a 0-dim tensor; `none` keeps one loss per target. Errors name the op, the shapes
// and the fix.

/// (x - target)^2. Shapes broadcast (ShapeError otherwise). F.mse_loss.
[[nodiscard]] Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

/// |x - target|; the gradient where both are equal is 0. Shapes broadcast (ShapeError). F.l1_loss.
[[nodiscard]] Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

/// Options of nll_loss.
struct NllLossAttrs {
  std::int64_t ignore_index = -100;  ///< targets of this value add nothing to loss and mean
  Reduction reduction = Reduction::mean;
  static constexpr auto fields() {
    return std::tuple{attr("ignore_index", &NllLossAttrs::ignore_index),
                      attr("reduction", &NllLossAttrs::reduction)};
  }
};

/// -weight[t] x[t] for log-probabilities x of shape [C], [N, C] or [N, C, d1, ...] and class indices t (i64)
/// of shape [], [N] or [N, d1, ...]. `weight` is [C] or undefined (1). The mean divides by the sum of the
/// weights of the targets that count: NaN when there are none. Gradients reach x and weight. Throws
/// ShapeError, DTypeError, and IndexError for a target outside [0, C) that is not ignore_index, before
/// anything is computed. F.nll_loss.
[[nodiscard]] Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                              const NllLossAttrs& options = {});
[[nodiscard]] Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossAttrs& options = {});

/// Options of cross_entropy.
struct CrossEntropyAttrs {
  std::int64_t ignore_index = -100;  ///< class indices only: targets of this value add nothing
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  ///< in [0, 1]: the share of the target spread evenly over the classes
  static constexpr auto fields() {
    return std::tuple{attr("ignore_index", &CrossEntropyAttrs::ignore_index),
                      attr("reduction", &CrossEntropyAttrs::reduction),
                      attr("label_smoothing", &CrossEntropyAttrs::label_smoothing)};
  }
};

/// -sum_c q_c weight_c log_softmax(x)_c over the class dim, in one pass over the logits x; no probabilities
/// are stored. Shapes of x and weight as for nll_loss. The target is either class indices (i64, shape as for
/// nll_loss): q = (1 - s) onehot(t) + s / C with s = label_smoothing; or class probabilities p (floating, x's
/// shape): q = (1 - s) p + s / C. The mean divides by the sum of weights as in nll_loss for indices, by the
/// number of rows for probabilities. Computes in f32 (f64 for f64) throughout; under autocast the result is
/// f32. Gradients reach x, probability targets and weight. Throws as nll_loss, and ValueError for a
/// label_smoothing outside [0, 1] or an ignore_index >= 0 with probabilities. F.cross_entropy.
[[nodiscard]] Tensor cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   const CrossEntropyAttrs& options = {});
[[nodiscard]] Tensor cross_entropy(const Tensor& x, const Tensor& target,
                                   const CrossEntropyAttrs& options = {});

/// -weight (t max(log x, -100) + (1 - t) max(log(1 - x), -100)) for probabilities x in [0, 1] and targets of
/// the same shape (ShapeError); `weight` broadcasts to it or is undefined. The gradient is
/// weight (x - t) / max(x (1 - x), 1e-12). Throws ValueError for an x outside [0, 1]; NaN passes through.
/// Refused under autocast: a 16-bit gradient cannot hold it. F.binary_cross_entropy.
[[nodiscard]] Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                          Reduction reduction = Reduction::mean);

/// weight ((1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))) for logits x and targets of the same shape
/// (ShapeError), computed without overflow at any x. `weight` and `pos_weight` broadcast to it or are
/// undefined (1). F.binary_cross_entropy_with_logits.
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                                      const Tensor& weight = {},
                                                      const Tensor& pos_weight = {},
                                                      Reduction reduction = Reduction::mean);

}  // namespace mezzo
