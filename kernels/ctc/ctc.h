// The kernels of connectionist temporal classification: how likely a network's frames spell a target, when
// any alignment of the two counts.
#pragma once

#include <cstdint>

#include "mezzo/kernels/device_kernel.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Frames and targets of a batch. Arrays are contiguous and in device memory; all lengths and classes are in
/// range.
struct CtcBatch {
  const void* log_probs = nullptr;               ///< [steps, samples, classes], in the compute type
  const std::int64_t* targets = nullptr;         ///< of all samples
  const std::int64_t* starts = nullptr;          ///< of each sample's targets
  const std::int64_t* input_lengths = nullptr;   ///< of each sample
  const std::int64_t* target_lengths = nullptr;  ///< of each sample
  std::int64_t steps = 0, samples = 0, classes = 0;
  std::int64_t longest = 0;  ///< of the target lengths
  std::int64_t blank = 0;
};

/// losses[n] = -log of the sum, over all alignments, of the product of probabilities; infinity when there is
/// none. `losses` has one f64 per sample; log_probs are f32 or f64, as `compute` says. Sums are kept in f64.
MEZZO_KERNEL(ctc_loss, void(double* losses, const CtcBatch& batch, DType compute));

/// gradient[t, n, c] = factors[n] (e^log_probs[t, n, c] - how likely frame t is c in an alignment), 0 behind
/// the sample's last frame. Samples of infinite loss have NaN, or 0 with `zero_infinity`. `factors` has one
/// f64 per sample; `gradient` has the type and shape of log_probs.
MEZZO_KERNEL(ctc_loss_backward, void(void* gradient, const double* factors, const CtcBatch& batch,
                                     bool zero_infinity, DType compute));

}  // namespace mezzo::kernels
