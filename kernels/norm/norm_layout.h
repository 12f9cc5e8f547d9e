// The arguments of normalization kernels besides x and the result: weight and bias, statistics, and how the
// elements that are normalized together lie in memory.
#pragma once

#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels {

/// Which statistics a row norm takes: mean and variance, or the mean square alone (the mean counts as 0).
enum class RowNorm : std::uint8_t { layer, rms };

/// Factors and summands of the normalized values, in the compute type, contiguous; nullptr: 1 and 0.
struct NormParameters {
  const void* weight = nullptr;
  const void* bias = nullptr;
};

/// Where backward of a row norm puts the gradients; those that are absent are not computed.
struct RowNormGradients {
  const View* input = nullptr;  ///< of x's shape; rounded once
  void* weight = nullptr;       ///< [row_norm_parts, n] in the compute type: a sum over the rows of each part
  void* bias = nullptr;         ///< the same
};

/// A dense array as `rows` of elements that are normalized together, each of `runs` runs of `length`
/// neighbouring elements with one weight and bias: element i of run k of row r is at
/// r * row_step + k * run_step + i. Rows and runs together are the whole array. group_norm of [N, C, L] in G
/// groups: rows N * G, runs C / G, row_step C / G * L, run_step L, channels 0, 1, ... along runs. batch_norm:
/// rows C, runs N, row_step L, run_step C * L, the channel is the row.
/// channels_last: the channels are innermost, in matrices [length, channels()]. Element i of run k of row r
/// is at (r / row_period * length + i) * channels() + channel(r, k); the steps mean nothing. group_norm of
/// [N, L, C]: rows, runs and channels as before, length L. batch_norm: rows C, 1 run, length N * L.
struct ChannelLayout {
  std::int64_t rows = 0, runs = 0, length = 0;
  std::int64_t row_step = 0, run_step = 0;
  std::int64_t row_period = 1;    ///< rows after which the channels repeat
  std::int64_t row_channels = 0;  ///< channels from a row to the next
  std::int64_t run_channels = 0;  ///< channels from a run to the next
  bool channels_last = false;

  [[nodiscard]] MEZZO_HD std::int64_t channel(std::int64_t row, std::int64_t run) const {
    return row % row_period * row_channels + run * run_channels;
  }
  /// Channels of a sample.
  [[nodiscard]] MEZZO_HD std::int64_t channels() const { return row_period * row_channels; }
  /// Elements in a row.
  [[nodiscard]] MEZZO_HD std::int64_t count() const { return runs * length; }
  /// Whether a whole row has one channel.
  [[nodiscard]] MEZZO_HD bool one_channel() const { return run_channels == 0; }
};

/// Mean and biased variance of each row, [rows] in the compute type. `given`: they are constants to normalize
/// with. Otherwise they are computed, and stored where there is an array for them.
struct ChannelStatistics {
  void* mean = nullptr;
  void* variance = nullptr;
  bool given = false;
};

/// Where backward of a channel norm puts the gradients; those that are absent are not computed.
struct ChannelNormGradients {
  const View* input = nullptr;  ///< lies as x does; rounded once
  void* weight = nullptr;       ///< in the compute type: [rows] sums if one_channel(), else [rows, runs]
  void* bias = nullptr;         ///< the same
};

}  // namespace mezzo::kernels
