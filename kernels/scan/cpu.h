// The CPU's linear recurrences: each row from its start to its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/reduce/reducers.h"
#include "mezzo/kernels/scan/scan_math.h"

namespace mezzo::kernels::cpu {

/// How a row is walked.
struct ScanOrder {
  double initial;
  bool reverse;
};

/// Goes on with `rows` recurrences from their values h over `n` elements each.
template <class T, bool kScale, bool kAdd>
void scan_rows(const RowBlock<T>& results, const std::array<RowBlock<T>, kScale + kAdd>& blocks,
               std::int64_t rows, std::int64_t n, bool reverse, Wide<T>* values) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Wide<T> h = values[r];
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = reverse ? n - 1 - k : k;
      scalar::AffineMap<Wide<T>, kScale, kAdd> step;
      if constexpr (kScale) step.scale = blocks[0].data[r * blocks[0].distance + i];
      if constexpr (kAdd) step.add = blocks[kScale].data[r * blocks[kScale].distance + i];
      h = step(h);
      results.data[r * results.distance + i] = static_cast<T>(h);
    }
    values[r] = h;
  }
}

/// Rows piece by piece, so that what is widened and narrowed of long ones stays in the cache.
template <class T, bool kScale, bool kAdd>
void scan_pieces(const RowOperand& out, const std::array<RowOperand, kScale + kAdd>& in, ScanOrder order) {
  constexpr std::int64_t kRows = RowOperand::kAcross, kBuffer = kRows * (kRowBlock + RowOperand::kAcross);
  constexpr std::int64_t kOperands = kScale + kAdd;
  const std::int64_t n = out.length();
  const bool across =
      out.across() || std::any_of(in.begin(), in.end(), [](const auto& x) { return x.across(); });
  parallel_for(out.rows(), across ? kRows : 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin;
    const RowScratch<T> buffer((1 + kOperands) * kBuffer);
    std::array<Wide<T>, kRows> values;
    values.fill(static_cast<Wide<T>>(order.initial));
    for (std::int64_t done = 0; done < n; done += kRowBlock) {
      const std::int64_t count = std::min(kRowBlock, n - done);
      const std::int64_t first = order.reverse ? n - done - count : done;
      std::array<RowBlock<T>, kScale + kAdd> blocks;
      for (std::size_t k = 0; k < in.size(); ++k) {
        T* const widened = buffer.data() + static_cast<std::int64_t>(1 + k) * kBuffer;
        blocks[k] = in[k].part(first, count).template read<T>(begin, rows, widened);
      }
      const RowOperand part = out.part(first, count);
      scan_rows<T, kScale, kAdd>(part.template target<T>(begin, buffer.data()), blocks, rows, count,
                                 order.reverse, values.data());
      part.finish(begin, rows, buffer.data());
    }
  });
}

/// See kernels::scan. `in` holds the scale, if kScale, and then what is added, if kAdd.
template <class T, bool kScale, bool kAdd>
void scan(const View& out, const std::array<RowOperand, kScale + kAdd>& in, std::size_t dim,
          ScanOrder order) {
  constexpr std::size_t kOperands = kScale + kAdd;
  const RowOperand target(out, dim);
  if (target.length() > kRowBlock) return scan_pieces<T, kScale, kAdd>(target, in, order);
  for_row_blocks<T, kOperands>(
      &target, in,
      [order, n = target.length()](RowBlock<T> results, const std::array<RowBlock<T>, kOperands>& blocks,
                                   std::int64_t /*begin*/, std::int64_t rows) {
        for (std::int64_t r = 0; r < rows; ++r) {
          auto h = static_cast<Wide<T>>(order.initial);
          std::array<RowBlock<T>, kOperands> row = blocks;
          for (RowBlock<T>& block : row) block.data += r * block.distance;
          scan_rows<T, kScale, kAdd>({results.data + r * results.distance, 0}, row, 1, n, order.reverse, &h);
        }
      });
}

}  // namespace mezzo::kernels::cpu
