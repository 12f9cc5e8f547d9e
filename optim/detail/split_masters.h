// Masters in two halves as tensors, for what is no step: state dicts, and masters of another kind.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::optim {

/// f32: the masters of bf16 parameters and their remainders (i16).
[[nodiscard]] Tensor joined_masters(const Tensor& parameter, const Tensor& remainder);
/// The remainders of f32 masters; writes the other halves to `parameter`.
[[nodiscard]] Tensor split_masters(const Tensor& master, const Tensor& parameter);
/// The masters where they still round to the parameter, to even or away from zero; elsewhere somebody else
/// has written the parameter, and it is the master. No host read.
[[nodiscard]] Tensor followed_masters(const Tensor& master, const Tensor& parameter);

}  // namespace mezzo::optim
