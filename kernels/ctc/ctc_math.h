// One sample of a CTC loss, for all devices: the states of its target, and one step of the recursions over
// them. Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/kernels/ctc/ctc.h"
#include "mezzo/kernels/math/math.h"
#include "mezzo/kernels/math/scalar_math.h"

namespace mezzo::kernels::scalar {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();  ///< the log of probability 0

/// log(e^a + e^b + e^c), without overflow.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double log_sum(double a, double b, double c) {
  const double largest = MaximumFn{}(MaximumFn{}(a, b), c);
  if (largest == kNever) return kNever;
  return largest + math::log(math::exp(a - largest) + math::exp(b - largest) + math::exp(c - largest));
}

/// The states are a blank, then each label and a blank behind it. An alignment begins in one of the first
/// two, ends in one of the last two, and in each frame stays, goes to the next state, or goes over a blank
/// between two labels that differ.
template <class T>
struct CtcSample {
  const T* log_probs;  ///< of frame 0
  const std::int64_t* labels;
  std::int64_t frame_step;  ///< from one frame to the next
  std::int64_t frames, count, blank;

  MEZZO_HD CtcSample(const CtcBatch& batch, std::int64_t n)
      : log_probs(static_cast<const T*>(batch.log_probs) + n * batch.classes),
        labels(batch.targets + batch.starts[n]),
        frame_step(batch.samples * batch.classes),
        frames(batch.input_lengths[n]),
        count(batch.target_lengths[n]),
        blank(batch.blank) {}

  [[nodiscard]] MEZZO_HD std::int64_t states() const { return 2 * count + 1; }
  [[nodiscard]] MEZZO_HD std::int64_t label(std::int64_t s) const {
    return s % 2 == 0 ? blank : labels[s / 2];
  }
  /// Whether state s may follow s - 2.
  [[nodiscard]] MEZZO_HD bool skips_to(std::int64_t s) const {
    return s % 2 == 1 && s > 1 && s < states() && labels[s / 2] != labels[s / 2 - 1];
  }
  [[nodiscard]] MEZZO_HD double log_prob(std::int64_t t, std::int64_t s) const {
    return static_cast<double>(log_probs[t * frame_step + label(s)]);
  }

  /// How likely frames 0 to t lead to state s in frame t, from the same of frame t - 1.
  [[nodiscard]] MEZZO_HD double forward(std::int64_t t, std::int64_t s, const double* before) const {
    if (t == 0) return s < 2 ? log_prob(t, s) : kNever;
    return log_prob(t, s) +
           log_sum(before[s], s > 0 ? before[s - 1] : kNever, skips_to(s) ? before[s - 2] : kNever);
  }
  /// How likely the frames behind t lead from state s in frame t to an end, from the same of frame t + 1.
  [[nodiscard]] MEZZO_HD double backward(std::int64_t t, std::int64_t s, const double* after) const {
    if (t == frames - 1) return s >= states() - 2 ? 0 : kNever;
    return log_sum(log_prob(t + 1, s) + after[s],
                   s + 1 < states() ? log_prob(t + 1, s + 1) + after[s + 1] : kNever,
                   skips_to(s + 2) ? log_prob(t + 1, s + 2) + after[s + 2] : kNever);
  }
  /// The loss, from forward() of the last frame.
  [[nodiscard]] MEZZO_HD double loss(const double* last) const {
    if (frames == 0) return count == 0 ? 0 : -kNever;
    return 0 - log_sum(last[2 * count], count > 0 ? last[2 * count - 1] : kNever, kNever);
  }
};

/// An element of the gradient, from the sum of its states' shares.
[[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE double ctc_slope(double log_prob, double share, double factor) {
  return factor * (math::exp(log_prob) - share);
}

}  // namespace mezzo::kernels::scalar
