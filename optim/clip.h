// Gradient clipping, on the device: nothing is read back. Between GradScaler::unscale_ and step it sees
// unscaled gradients, also the f32 gradients of 16-bit parameters.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

/// Scales all gradients by min(1, max_norm / (total + 1e-6)), where total is get_total_norm of them; in
/// place, without a look at the value. Returns total. Parameters without gradients are left out; list each
/// parameter once. A total of inf or NaN makes gradients 0 or NaN; with error_if_nonfinite it throws
/// ValueError instead (one host read), before any change. By default it is let through, as overflown
/// gradients are legal under a GradScaler. Throws: ValueError for a negative max_norm, NaN, or an undefined
/// parameter, ShapeError for a gradient whose elements share memory, and what get_total_norm throws. Source:
/// torch.nn.utils.clip_grad_norm_.
Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);

/// The norm_type-norm of all tensors taken as one vector, 0-dim, f64 when one of them is and f32 otherwise,
/// accumulated in f64. norm_type may be infinity (the largest magnitude), -infinity (the least), negative, or
/// 0: the number of tensors that are not all zeros, as in PyTorch. No tensors: 0 on the CPU. Throws:
/// ValueError for a norm_type of NaN and as clip_grad_norm_ for error_if_nonfinite, DTypeError for a tensor
/// that is not floating, DeviceError for tensors on two devices, ShapeError for an empty tensor when
/// norm_type is negative or infinite. Source: torch.nn.utils.get_total_norm.
[[nodiscard]] Tensor get_total_norm(TensorList tensors, double norm_type = 2.0,
                                    bool error_if_nonfinite = false);

/// The second half of clip_grad_norm_, with a total norm from elsewhere: one floating element on the
/// gradients' device (ShapeError, DTypeError, DeviceError). Source: torch.nn.utils.clip_grads_with_norm_.
void clip_grads_with_norm_(TensorList parameters, double max_norm, const Tensor& total_norm);

/// Limits every element of every gradient to [-limit, limit]; NaN stays. Throws: ValueError for a limit that
/// is negative or NaN, and what clip_grad_norm_ throws for parameters.
void clip_grad_value_(TensorList parameters, double limit);

}  // namespace mezzo::optim
