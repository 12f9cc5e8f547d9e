// Sequences of different lengths, for RNN, GRU and LSTM: packed step by step without padding, or padded to
// one length. Names and meanings are those of torch.nn.utils.rnn.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::nn {

/// N sequences, the longest first, cut into steps: all first steps, then the second steps of the sequences
/// that have one, ... So a step's rows are the first of the rows of the step before. Made by
/// pack_padded_sequence and pack_sequence; a layer takes and gives it. Lists are on the host.
struct PackedSequence {
  Tensor data;                            ///< [sum of lengths, ..]
  std::vector<std::int64_t> batch_sizes;  ///< how many sequences have a step 0, 1, ...; never rising
  /// Which sequence of the batch came to which place, and at which place each one is; both empty where they
  /// were sorted already.
  std::vector<std::int64_t> sorted_indices, unsorted_indices;

  /// N.
  [[nodiscard]] std::int64_t num_sequences() const;
  /// The length of each sequence, in the order of the batch.
  [[nodiscard]] std::vector<std::int64_t> lengths() const;
};

/// Options of pack_padded_sequence.
struct PackOptions {
  bool batch_first = false;    ///< x is [N, L, ..] and not [L, N, ..]
  bool enforce_sorted = true;  ///< lengths must fall; else the sequences are sorted here
};
/// The first lengths[n] steps of each sequence n. Steps behind them are not read and have a gradient of 0.
/// Shapes: x [L, N, ..], lengths of N.
/// Throws: ShapeError for fewer than 2 dims, ValueError for another number of lengths, for a length outside
/// of [1, L], and for rising lengths with enforce_sorted. Source: torch.nn.utils.rnn.pack_padded_sequence.
[[nodiscard]] PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                                  const PackOptions& options = {});
/// pack_padded_sequence for sequences [L_n, ..], one tensor each, that agree in all dims but the first
/// (ShapeError); dtypes as for cat. Throws: ValueError for no sequences and for one without steps.
[[nodiscard]] PackedSequence pack_sequence(TensorList sequences, bool enforce_sorted = true);

/// Results of pad_packed_sequence.
struct PaddedSequence {
  Tensor output;
  std::vector<std::int64_t> lengths;
};
/// Options of pad_packed_sequence.
struct PadPackedOptions {
  bool batch_first = false;  ///< the result is [N, L, ..] and not [L, N, ..]
  double padding_value = 0;
  std::int64_t total_length = 0;  ///< L; 0: the longest length
};
/// The reverse of pack_padded_sequence: sequences in the order of the batch, with padding_value behind each.
/// Throws: ValueError for a total_length below the longest length, and for lists that do not belong to a
/// packed sequence.
[[nodiscard]] PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                                 const PadPackedOptions& options = {});

/// On which side of a sequence pad_sequence puts the padding.
enum class PaddingSide : std::uint8_t { right, left };
/// Options of pad_sequence.
struct PadSequenceOptions {
  bool batch_first = false;  ///< the result is [N, L, ..] and not [L, N, ..]
  double padding_value = 0;
  PaddingSide padding_side = PaddingSide::right;
};
/// Sequences [L_n, ..] as one tensor [L, N, ..], L the longest length. Throws: ValueError for no sequences;
/// ShapeError for 0-dim sequences and for sequences that differ in other dims than the first.
[[nodiscard]] Tensor pad_sequence(TensorList sequences, const PadSequenceOptions& options = {});

/// The first lengths[n] steps of each sequence of a padded tensor: views. Throws: as pack_padded_sequence,
/// but lengths may be 0.
[[nodiscard]] Tensors unpad_sequence(const Tensor& padded, const std::vector<std::int64_t>& lengths,
                                     bool batch_first = false);
/// The sequences in the order of the batch, [L_n, ..] each.
[[nodiscard]] Tensors unpack_sequence(const PackedSequence& sequence);

namespace detail {

/// Throws ValueError unless the lists belong to each other and to data.
void require_packed(std::string_view name, const PackedSequence& sequence);

/// A list as an index.
[[nodiscard]] Tensor row_list(const std::vector<std::int64_t>& rows, Device device);

}  // namespace detail

}  // namespace mezzo::nn
