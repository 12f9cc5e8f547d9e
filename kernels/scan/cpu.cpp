// The CPU's scans: each row from its start to its end, by the maps of scan_math.h.
#include "mezzo/kernels/scan/scan.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/reduce/reducers.h"
#include "mezzo/kernels/scan/scan_math.h"

namespace mezzo::kernels::cpu {

namespace {

/// How a row is walked.
template <class T>
struct ScanOrder {
  Wide<T> initial;
  bool reverse;
};

/// Goes on with `rows` scans from their values h over `n` elements each.
template <class T, class Map>
void scan_rows(const RowBlock<T>& results, const std::array<RowBlock<T>, Map::kOperands>& blocks,
               std::int64_t rows, std::int64_t n, bool reverse, Wide<T>* values) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Wide<T> h = values[r];
    for (std::int64_t at = 0; at < n; ++at) {
      const std::int64_t i = reverse ? n - 1 - at : at;
      const Map step =
          Map::of([&](std::size_t k) -> Wide<T> { return blocks[k].data[r * blocks[k].distance + i]; });
      h = step(h);
      results.data[r * results.distance + i] = static_cast<T>(h);
    }
    values[r] = h;
  }
}

/// Rows piece by piece, so that the widened and narrowed piece of a long row stays in the cache.
template <class T, class Map>
void scan_pieces(const RowOperand& out, const std::array<RowOperand, Map::kOperands>& in,
                 ScanOrder<T> order) {
  constexpr std::int64_t kRows = RowOperand::kAcross, kBuffer = kRows * (kRowBlock + RowOperand::kAcross);
  constexpr auto kOperands = static_cast<std::int64_t>(Map::kOperands);
  const std::int64_t n = out.length();
  const bool across =
      out.across() || std::any_of(in.begin(), in.end(), [](const auto& x) { return x.across(); });
  parallel_for(out.rows(), across ? kRows : 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = end - begin;
    const RowScratch<T> buffer((1 + kOperands) * kBuffer);
    std::array<Wide<T>, kRows> values;
    values.fill(order.initial);
    for (std::int64_t done = 0; done < n; done += kRowBlock) {
      const std::int64_t count = std::min(kRowBlock, n - done);
      const std::int64_t first = order.reverse ? n - done - count : done;
      std::array<RowBlock<T>, Map::kOperands> blocks;
      for (std::size_t k = 0; k < in.size(); ++k) {
        T* const widened = buffer.data() + static_cast<std::int64_t>(1 + k) * kBuffer;
        blocks[k] = in[k].part(first, count).template read<T>(begin, rows, widened);
      }
      const RowOperand part = out.part(first, count);
      scan_rows<T, Map>(part.template target<T>(begin, buffer.data()), blocks, rows, count, order.reverse,
                        values.data());
      part.finish(begin, rows, buffer.data());
    }
  });
}

/// `in` holds the operands in the order of the map.
template <class T, class Map>
void scan_as(const View& out, const std::array<RowOperand, Map::kOperands>& in, std::size_t dim,
             ScanOrder<T> order) {
  constexpr std::size_t kOperands = Map::kOperands;
  const RowOperand target(out, dim);
  if (target.length() > kRowBlock) return scan_pieces<T, Map>(target, in, order);
  for_row_blocks<T, kOperands>(
      &target, in,
      [order, n = target.length()](RowBlock<T> results, const std::array<RowBlock<T>, kOperands>& blocks,
                                   std::int64_t /*begin*/, std::int64_t rows) {
        for (std::int64_t r = 0; r < rows; ++r) {
          Wide<T> h = order.initial;
          std::array<RowBlock<T>, kOperands> row = blocks;
          for (RowBlock<T>& block : row) block.data += r * block.distance;
          scan_rows<T, Map>({results.data + r * results.distance, 0}, row, 1, n, order.reverse, &h);
        }
      });
}

}  // namespace

void scan(const View& out, const Recurrence& recurrence, std::size_t dim, DType compute) {
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    const ScanOrder<T> order{static_cast<Wide<T>>(recurrence.initial), recurrence.reverse};
    using scalar::AffineMap;
    if (recurrence.add == nullptr)
      scan_as<T, AffineMap<Wide<T>, true, false>>(out, {RowOperand(*recurrence.scale, dim)}, dim, order);
    else if (recurrence.scale == nullptr)
      scan_as<T, AffineMap<Wide<T>, false, true>>(out, {RowOperand(*recurrence.add, dim)}, dim, order);
    else
      scan_as<T, AffineMap<Wide<T>, true, true>>(
          out, {RowOperand(*recurrence.scale, dim), RowOperand(*recurrence.add, dim)}, dim, order);
  });
}

void log_scan(const View& out, const View& x, std::size_t dim, DType compute) {
  dispatch_real(compute, [&]<class T>(TypeTag<T>) {
    using Map = scalar::LogAddMap<Wide<T>>;
    scan_as<T, Map>(out, {RowOperand(x, dim)}, dim, {Map::kNothing, false});
  });
}

void extremum_scan(const View& out, const View& x, std::size_t dim, bool least, DType compute) {
  dispatch_compute(compute, [&]<class T>(TypeTag<T>) {
    using Least = scalar::ExtremumMap<Wide<T>, true>;
    using Largest = scalar::ExtremumMap<Wide<T>, false>;
    if (least)
      scan_as<T, Least>(out, {RowOperand(x, dim)}, dim, {Least::kNothing, false});
    else
      scan_as<T, Largest>(out, {RowOperand(x, dim)}, dim, {Largest::kNothing, false});
  });
}

}  // namespace mezzo::kernels::cpu
