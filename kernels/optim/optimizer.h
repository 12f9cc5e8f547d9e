// The arguments that an optimizer's step hands to the kernels: the tensors of each parameter, and the
// settings of a group. kernels/optim/update.h runs them.
#pragma once

#include <array>
#include <span>

#include "mezzo/kernels/scaler/scaler_record.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Buffers that an algorithm may keep per parameter.
inline constexpr std::size_t kMaxBuffers = 3;

/// One parameter in a step. `value` is what the update is made on (the parameter, or its f32 master);
/// `copies` receive the new value rounded to their dtype; views without data are absent.
struct ParameterUpdate {
  View value;
  View gradient;
  std::array<View, kMaxBuffers>
      state;  ///< in the compute dtype of `value`, or codes (u8) with scales (Moments8)
  std::array<float*, kMaxBuffers> scales{};
  std::uint32_t nonnegative = 0;  ///< bit s: codes of state s are without a sign
  std::array<View, 3> copies;     ///< of a split master the last is its remainder (i16): see is_split
  std::int64_t* step = nullptr;   ///< updates so far, in device memory; advanced unless the step is skipped
  double* carried = nullptr;      ///< likewise, of algorithms that carry a number (UpdateRule::kCarries)
  bool is_split = false;  ///< the update is made on the f32 master that the bf16 `value` and copies[2] are
  bool rounds_at_random = false;   ///< a 16-bit `value` is rounded by RoundingBits, copies with it
  std::uint32_t number = 0;        ///< of the parameter in the optimizer, for RoundingBits
  std::int64_t first_element = 0;  ///< where `value` begins in that parameter
};

/// The numbers that a schedule may change from step to step, one struct per group in device memory.
struct Rates {
  double lr = 0;
  double momentum = 0;  ///< momentum or beta1, of algorithms that have one
};

/// The arguments of a whole group. With a record: nothing at all is written when found_inf is set; with
/// `unscale`, gradients are multiplied by inv_scale, and left so with `write_unscaled`.
struct UpdateControl {
  const Rates* rates = nullptr;  ///< in device memory
  const ScalerRecord* record = nullptr;
  bool unscale = false;
  bool write_unscaled = true;
  std::uint32_t* ticket = nullptr;  ///< CUDA only: in device memory, 0 before and after; one per group
};

}  // namespace mezzo::kernels
