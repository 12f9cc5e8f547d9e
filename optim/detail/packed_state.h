// Masters in two halves and moments in 8 bits as f32 tensors, for what is no step: state dicts, loads.
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

/// Whether the moments of a tensor are kept in 8 bits where the option says so: large ones, but for f64.
[[nodiscard]] bool takes_8_bits(const Tensor& parameter);
/// Whether the moments of that name are never negative.
[[nodiscard]] bool is_nonnegative(std::string_view moments);

/// Moments in 8 bits: codes (u8) of a tensor's shape, and a scale for each 256 of its elements.
struct PackedMoments {
  Tensor codes, scales;
};
/// Zeros, in the shape and on the device of `parameter`.
[[nodiscard]] PackedMoments zero_moments(const Tensor& parameter, bool nonnegative);
[[nodiscard]] PackedMoments packed_moments(const Tensor& moments, bool nonnegative);
[[nodiscard]] Tensor unpacked_moments(const PackedMoments& moments, bool nonnegative);

}  // namespace mezzo::optim
