// The CPU's linear recurrences: one row after the other, each from its start to its end.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/reducers.h"
#include "mezzo/kernels/scan_math.h"

namespace mezzo::kernels::cpu {

/// How a row is walked.
struct ScanOrder {
  double initial;
  bool reverse;
};

/// See kernels::scan. `in` holds the scale, if kScale, and then what is added, if kAdd.
template <class T, bool kScale, bool kAdd>
void scan(const View& out, const std::array<RowOperand, kScale + kAdd>& in, std::size_t dim,
          ScanOrder order) {
  constexpr std::size_t kOperands = kScale + kAdd;
  const RowOperand target(out, dim);
  for_row_blocks<T, kOperands>(
      &target, in,
      [order, n = target.length()](RowBlock<T> results, const std::array<RowBlock<T>, kOperands>& blocks,
                                   std::int64_t /*begin*/, std::int64_t rows) {
        for (std::int64_t r = 0; r < rows; ++r) {
          auto h = static_cast<Wide<T>>(order.initial);
          for (std::int64_t k = 0; k < n; ++k) {
            const std::int64_t i = order.reverse ? n - 1 - k : k;
            scalar::AffineMap<Wide<T>, kScale, kAdd> step;
            if constexpr (kScale) step.scale = blocks[0].data[r * blocks[0].distance + i];
            if constexpr (kAdd) step.add = blocks[kScale].data[r * blocks[kScale].distance + i];
            h = step(h);
            results.data[r * results.distance + i] = static_cast<T>(h);
          }
        }
      });
}

}  // namespace mezzo::kernels::cpu
