// Packing and padding: lists of rows are made on the host, and one op moves the rows.
#include "mezzo/nn/packed_sequence.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "mezzo/core/error.h"
#include "mezzo/core/layout.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

namespace {

using List = std::vector<std::int64_t>;

/// The first two dims as one.
Tensor as_rows(const Tensor& x) {
  Shape shape(std::span<const std::int64_t>(x.shape().begin() + 1, x.shape().end()));
  shape[0] = x.size(0) * x.size(1);
  return reshape(x, shape);
}

List inverse_of(const List& order) {
  List inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

/// A packed sequence without data: the order of the sequences, and how many have each step.
PackedSequence plan(std::string_view name, const std::vector<std::int64_t>& lengths, bool enforce_sorted) {
  PackedSequence result;
  List order(lengths.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto longer = [&](std::int64_t a, std::int64_t b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  };
  if (!std::is_sorted(order.begin(), order.end(), longer)) {
    if (enforce_sorted) {
      throw ValueError(name, "lengths that do not rise", mezzo::to_string(lengths),
                       "sort the sequences, or ask for no enforce_sorted");
    }
    std::stable_sort(order.begin(), order.end(), longer);
    result.sorted_indices = order, result.unsorted_indices = inverse_of(order);
  }
  const std::int64_t longest = lengths[static_cast<std::size_t>(order[0])];
  auto running = static_cast<std::int64_t>(order.size());
  for (std::int64_t step = 0; step < longest; ++step) {
    while (lengths[static_cast<std::size_t>(order[static_cast<std::size_t>(running - 1)])] <= step) --running;
    result.batch_sizes.push_back(running);
  }
  return result;
}

void require_lengths(std::string_view name, const std::vector<std::int64_t>& lengths, std::int64_t count,
                     std::int64_t least, std::int64_t most) {
  if (static_cast<std::int64_t>(lengths.size()) != count) {
    throw ValueError(name, "a length for each of " + std::to_string(count) + " sequences",
                     std::to_string(lengths.size()) + " lengths", "pass as many as the batch has");
  }
  for (const std::int64_t length : lengths) {
    if (length >= least && length <= most) continue;
    throw ValueError(name, "lengths in [" + std::to_string(least) + ", " + std::to_string(most) + "]",
                     std::to_string(length), "a length counts the steps of its sequence");
  }
}

void require_batch(std::string_view name, const Tensor& x) {
  if (!x.defined()) throw ValueError(name, "a tensor", "an undefined one", "pass a batch of sequences");
  if (x.dim() >= 2) return;
  throw ShapeError(name, "sequences [L, N, ..]", to_string(x.shape()), "the first dims are steps and batch");
}

/// Lengths of sequences that are tensors, checked.
List lengths_of(std::string_view name, TensorList sequences) {
  if (sequences.size() == 0)
    throw ValueError(name, "at least one sequence", "none", "pass a list of tensors");
  List lengths;
  const Tensor* first = nullptr;
  for (const Tensor& x : sequences) {
    if (!x.defined()) throw ValueError(name, "tensors", "an undefined one", "pass sequences only");
    if (first == nullptr) first = &x;
    const auto rest = [](const Tensor& of) {
      return std::span<const std::int64_t>(of.shape().begin(), of.shape().end()).subspan(1);
    };
    if (x.dim() < 1 || x.dim() != first->dim() ||
        !std::equal(rest(x).begin(), rest(x).end(), rest(*first).begin())) {
      throw ShapeError(name, "sequences [L, ..] of one shape but for L",
                       to_string(first->shape()) + " and " + to_string(x.shape()), "steps are the first dim");
    }
    lengths.push_back(x.size(0));
  }
  return lengths;
}

/// Where each length begins when all are laid one after the other.
List starts_of(const std::vector<std::int64_t>& lengths) {
  List starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), std::int64_t{0});
  return starts;
}

/// For each row of packed data `step * step_stride` behind the row where its sequence begins; sequences are
/// numbered as the batch had them.
List packed_rows(const PackedSequence& sequence, std::int64_t step_stride, const List& begins) {
  List rows;
  for (std::size_t step = 0; step < sequence.batch_sizes.size(); ++step) {
    for (std::int64_t k = 0; k < sequence.batch_sizes[step]; ++k) {
      const auto place = static_cast<std::size_t>(k);
      const std::size_t n =
          sequence.sorted_indices.empty() ? place : static_cast<std::size_t>(sequence.sorted_indices[place]);
      rows.push_back(static_cast<std::int64_t>(step) * step_stride + begins[n]);
    }
  }
  return rows;
}
/// The same in a padded batch of so many steps.
List padded_rows(const PackedSequence& sequence, std::int64_t steps, bool batch_first) {
  const std::int64_t batch = sequence.num_sequences();
  return packed_rows(sequence, batch_first ? 1 : batch,
                     starts_of(List(static_cast<std::size_t>(batch), batch_first ? steps : 1)));
}

/// Rows of `count` x `count2` places with `rows` at `places` and a value everywhere else, as [d0, d1, ..].
Tensor spread(const Tensor& rows, const List& places, std::int64_t d0, std::int64_t d1, double value) {
  Shape flat = rows.shape();
  flat[0] = d0 * d1;
  const Tensor all = full(flat, value, {.dtype = rows.dtype(), .device = rows.device()});
  Shape shape = rows.shape();
  shape[0] = d1;
  shape.insert(0, d0);
  return reshape(index_copy(all, 0, detail::row_list(places, rows.device()), rows), shape);
}

}  // namespace

namespace detail {

Tensor row_list(const std::vector<std::int64_t>& rows, Device device) {
  return tensor(rows, {static_cast<std::int64_t>(rows.size())}, {.device = device});
}

void require_packed(std::string_view name, const PackedSequence& sequence) {
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw ValueError(name, expected, got, "make it by pack_padded_sequence or pack_sequence");
  };
  const Tensor& data = sequence.data;
  if (!data.defined() || data.dim() < 1) refuse("a packed sequence", "one without data");
  std::int64_t total = 0, before = data.size(0);
  for (const std::int64_t size : sequence.batch_sizes) {
    if (size < 1 || size > before)
      refuse("batch_sizes of at least 1 that do not rise", mezzo::to_string(sequence.batch_sizes));
    total += size, before = size;
  }
  if (total == 0 || total != data.size(0)) {
    refuse("batch_sizes of at least one step that add up to the rows of data",
           mezzo::to_string(sequence.batch_sizes) + " for " + to_string(data.shape()));
  }
  const auto &sorted = sequence.sorted_indices, &unsorted = sequence.unsorted_indices;
  if (sorted.empty() && unsorted.empty()) return;
  const auto count = static_cast<std::size_t>(sequence.num_sequences());
  bool fits = sorted.size() == count && unsorted.size() == count;
  for (std::size_t i = 0; fits && i < count; ++i) {
    const auto place = static_cast<std::size_t>(sorted[i]);
    fits = place < count && unsorted[place] == static_cast<std::int64_t>(i);
  }
  if (!fits)
    refuse("indices that are an order of the sequences and its reverse",
           mezzo::to_string(sorted) + " and " + mezzo::to_string(unsorted));
}

}  // namespace detail

std::int64_t PackedSequence::num_sequences() const { return batch_sizes.empty() ? 0 : batch_sizes[0]; }

std::vector<std::int64_t> PackedSequence::lengths() const {
  detail::require_packed("PackedSequence", *this);
  List lengths(static_cast<std::size_t>(num_sequences()));
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const std::size_t n = sorted_indices.empty() ? k : static_cast<std::size_t>(sorted_indices[k]);
    lengths[n] = std::count_if(batch_sizes.begin(), batch_sizes.end(),
                               [&](std::int64_t size) { return size > static_cast<std::int64_t>(k); });
  }
  return lengths;
}

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                    const PackOptions& options) {
  constexpr std::string_view kName = "pack_padded_sequence";
  require_batch(kName, x);
  const std::int64_t batch = x.size(options.batch_first ? 0 : 1), steps = x.size(options.batch_first ? 1 : 0);
  if (batch == 0) throw ValueError(kName, "at least one sequence", to_string(x.shape()), "check the batch");
  require_lengths(kName, lengths, batch, 1, steps);
  PackedSequence result = plan(kName, lengths, options.enforce_sorted);
  const List rows = padded_rows(result, steps, options.batch_first);
  result.data = index_select(as_rows(x), 0, detail::row_list(rows, x.device()));
  return result;
}

PackedSequence pack_sequence(TensorList sequences, bool enforce_sorted) {
  constexpr std::string_view kName = "pack_sequence";
  const List lengths = lengths_of(kName, sequences);
  require_lengths(kName, lengths, static_cast<std::int64_t>(lengths.size()), 1,
                  std::numeric_limits<std::int64_t>::max());
  PackedSequence result = plan(kName, lengths, enforce_sorted);
  const List rows = packed_rows(result, 1, starts_of(lengths));
  const Tensor all = cat(sequences, 0);
  result.data = index_select(all, 0, detail::row_list(rows, all.device()));
  return result;
}

PaddedSequence pad_packed_sequence(const PackedSequence& sequence, const PadPackedOptions& options) {
  constexpr std::string_view kName = "pad_packed_sequence";
  detail::require_packed(kName, sequence);
  const auto longest = static_cast<std::int64_t>(sequence.batch_sizes.size());
  const std::int64_t steps = options.total_length == 0 ? longest : options.total_length;
  if (steps < longest) {
    throw ValueError(kName, "a total_length of at least " + std::to_string(longest), std::to_string(steps),
                     "the longest sequence has as many steps");
  }
  const std::int64_t batch = sequence.num_sequences();
  layout::checked_numel(kName, {batch, steps});
  const bool first = options.batch_first;
  const List rows = padded_rows(sequence, steps, first);
  return {spread(sequence.data, rows, first ? batch : steps, first ? steps : batch, options.padding_value),
          sequence.lengths()};
}

Tensor pad_sequence(TensorList sequences, const PadSequenceOptions& options) {
  const List lengths = lengths_of("pad_sequence", sequences);
  const std::int64_t steps = *std::max_element(lengths.begin(), lengths.end());
  const auto batch = static_cast<std::int64_t>(lengths.size());
  List rows;
  for (std::int64_t n = 0; n < batch; ++n) {
    const std::int64_t length = lengths[static_cast<std::size_t>(n)];
    const std::int64_t begin = options.padding_side == PaddingSide::left ? steps - length : 0;
    for (std::int64_t step = begin; step < begin + length; ++step)
      rows.push_back(options.batch_first ? n * steps + step : step * batch + n);
  }
  const bool first = options.batch_first;
  return spread(cat(sequences, 0), rows, first ? batch : steps, first ? steps : batch, options.padding_value);
}

Tensors unpad_sequence(const Tensor& padded, const std::vector<std::int64_t>& lengths, bool batch_first) {
  constexpr std::string_view kName = "unpad_sequence";
  require_batch(kName, padded);
  const std::int64_t batch_dim = batch_first ? 0 : 1;
  require_lengths(kName, lengths, padded.size(batch_dim), 0, padded.size(1 - batch_dim));
  Tensors result;
  for (std::size_t n = 0; n < lengths.size(); ++n)
    result.push_back(narrow(select(padded, batch_dim, static_cast<std::int64_t>(n)), 0, 0, lengths[n]));
  return result;
}

Tensors unpack_sequence(const PackedSequence& sequence) {
  const PaddedSequence padded = pad_packed_sequence(sequence, {.batch_first = true});
  return unpad_sequence(padded.output, padded.lengths, true);
}

}  // namespace mezzo::nn
