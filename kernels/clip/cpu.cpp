// The CPU side of gradient clipping: pieces of all tensors in one parallel loop, tile by tile.
#include "mezzo/kernels/clip/clip.h"

#include <array>

#include "mezzo/kernels/clip/clip_math.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/optim/cpu_pieces.h"
#include "mezzo/kernels/reduce/cpu_tiles.h"

namespace mezzo::kernels::cpu {

namespace {

auto sizes_of(std::span<const View> tensors) {
  return [tensors](std::size_t i) { return layout::numel(tensors[i].shape); };
}

/// f(type, operand, begin, elements) for the tiles of a chunk, in order.
template <class Size, class F>
void each_tile(std::span<const View> tensors, const Pieces& pieces, const Size& size, std::int64_t chunk,
               const F& f) {
  pieces.each(chunk, size, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const TileOperand operand = tiles_in_memory_order(tensors[i]);
    dispatch_compute(tensors[i].dtype, [&]<class T>(TypeTag<T> type) {
      for (std::int64_t at = begin; at < end; at += kTile) f(type, operand, at, std::min(kTile, end - at));
    });
  });
}

template <class T, class Change>
struct ChangeTile {
  static void run(T* out, const T* x, std::int64_t n, Change change) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) out[i] = change(x[i]);
  }
};

template <class Change>
void change_all(std::span<const View> tensors, const Change& change) {
  if (!change.changes()) return;
  const auto size = sizes_of(tensors);
  const Pieces pieces(tensors.size(), size);
  pieces.run([&](std::int64_t chunk) {
    each_tile(tensors, pieces, size, chunk,
              [&]<class T>(TypeTag<T>, const TileOperand& operand, std::int64_t at, std::int64_t n) {
                TileBuffer<T> buffer, result;
                const T* x = operand.read<T>(at, n, buffer);
                run_isa<ChangeTile<T, Change>>(operand.target<T>(at, result), x, n, change);
                operand.finish<T>(at, n, result);
              });
  });
}

/// The accumulators of all chunks, put together in their order.
template <class R>
double reduce_all(std::span<const View> tensors, const R& reducer) {
  const auto size = sizes_of(tensors);
  const Pieces pieces(tensors.size(), size);
  static constinit mezzo::detail::PerThread<Scratch> memory;
  double* const found = memory.get().get<double>(pieces.chunks());
  pieces.run([&](std::int64_t chunk) {
    double mine = reducer.identity();
    each_tile(tensors, pieces, size, chunk,
              [&]<class T>(TypeTag<T>, const TileOperand& operand, std::int64_t at, std::int64_t n) {
                TileBuffer<T> buffer;
                const std::array<const T*, 1> x{operand.read<T>(at, n, buffer)};
                mine = run_isa<detail::RowRun<T, R, 1>>(reducer, x, 0.0, n, mine);
              });
    found[chunk] = mine;
  });
  double total = reducer.identity();
  for (std::int64_t chunk = 0; chunk < pieces.chunks(); ++chunk) total = reducer.combine(total, found[chunk]);
  return total;
}

}  // namespace

void total_norm(std::span<const View> tensors, double p, const View& total) {
  with_norm(p, [&](const auto& reducer, const LastStep& last) {
    const double norm = last(reduce_all(tensors, reducer), 1);
    if (total.dtype == DType::f64)
      *static_cast<double*>(total.data) = norm;
    else
      *static_cast<float*>(total.data) = static_cast<float>(norm);
  });
}

void scale_to_norm(std::span<const View> tensors, double max_norm, const View& total) {
  change_all(tensors, ScaleToNorm{NormFactor{total.data, total.dtype == DType::f64, max_norm}}.change());
}

void limit_values(std::span<const View> tensors, double limit) { change_all(tensors, LimitValues{limit}); }

}  // namespace mezzo::kernels::cpu
