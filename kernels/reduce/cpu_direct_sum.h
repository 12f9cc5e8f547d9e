// Sums of f16 and bf16 straight from memory. Apart from the other reductions because it is written with
// the instructions of one processor family: compilers find no short way from 16 to 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels::cpu::detail {

/// total = the sum of n elements of `dtype` from `x` on, in the order and hence with the bits of
/// RowRun<float, Sum<>, 1> from 0 on the widened elements. False, with `total` as it was, where it cannot: no
/// AVX-512, another dtype, or a 16-bit element that is infinite or NaN.
[[nodiscard]] bool direct_sum(const std::byte* x, DType dtype, std::int64_t n, double& total);

}  // namespace mezzo::kernels::cpu::detail
