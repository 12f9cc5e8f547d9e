// Gradient clipping, on the device: nothing is read back.
#pragma once

#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

/// Scales all gradients by min(1, max_norm / (total + 1e-6)), where total is the p-norm (norm_type; infinity
/// allowed) of all gradients taken as one vector; always multiplies, so that no value is read back. Returns
/// total, a 0-dim tensor, f32 (f64 for f64 gradients). Parameters without gradients are left out; with none
/// at all it is 0. With error_if_nonfinite a total of inf or NaN throws ValueError (one host read), before
/// any change; by default it is let through, as overflown gradients are legal under a GradScaler. Source:
/// torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);

/// Limits every element of every gradient to [-limit, limit]; NaN stays. Throws ValueError for a negative
/// limit.
void clip_grad_value_(std::span<const Tensor> parameters, double limit);

}  // namespace mezzo::optim
