// Convolutions by cuDNN.
#pragma once

#include "mezzo/kernels/conv/conv.h"

namespace mezzo::kernels::cuda {

/// Computes a map of kernels/conv/conv.h by cuDNN, with the bias of forward and input gradient (or null).
/// False when it did not: no library, no plan that keeps the contract of kernels/conv/conv.h and gives the
/// same bits every time, a result narrower than an operand, or a first meeting in a stream capture. Which
/// plan is taken is asked for once per device, sizes and dtypes, and kept; what has none is remembered too.
/// A captured graph owns the plans that it may run again (Recording::hold); of too many the others are
/// forgotten.
[[nodiscard]] bool dnn_conv(Device device, ConvMap map, const ConvShape& shape, const View& x,
                            const View& weight, const View& y, const void* bias);

/// Counts of the maps so far, in this process; for tests.
struct DnnConvCounts {
  std::uint64_t plans = 0;     ///< questions for a plan
  std::uint64_t refusals = 0;  ///< questions without an answer
  std::uint64_t runs = 0;      ///< maps that cuDNN computed
};
[[nodiscard]] DnnConvCounts dnn_conv_counts();

/// Whether cuDNN is asked at all; on at first. For tests, and for measuring what it is worth.
[[nodiscard]] bool conv_by_dnn();
void set_conv_by_dnn(bool on);

}  // namespace mezzo::kernels::cuda
