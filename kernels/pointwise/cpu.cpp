// The driver of the CPU's pointwise loops. It knows dtypes by value and the functor by address: one for all
// ops.
#include "mezzo/kernels/pointwise/cpu.h"

#include "mezzo/core/small_vector.h"
#include "mezzo/kernels/cpu/rows.h"

namespace mezzo::kernels::cpu::detail {

namespace {

using Operands = SmallVector<TileOperand, 4>;

/// Bytes of a tile of the largest dtype.
constexpr std::int64_t kTileBytes = kTile * std::int64_t{sizeof(double)};

/// Tiles [begin, end) of one thread.
void run_tiles(const PointwiseLoop& loop, const TileOperand& target, const Operands& operands,
               std::int64_t begin, std::int64_t end) {
  bool in_place = target.in_place(loop.result);
  for (const TileOperand& operand : operands) in_place = in_place && operand.in_place(loop.operand);
  const auto count = static_cast<std::int64_t>(operands.size());
  const RowScratch<std::byte> scratch(in_place ? 0 : (count + 1) * kTileBytes);
  const auto buffer = [&](std::size_t k) {
    return in_place ? nullptr : scratch.data() + static_cast<std::int64_t>(k) * kTileBytes;
  };
  SmallVector<const void*, 4> tiles(operands.size());
  std::byte* const result = buffer(operands.size());
  for (std::int64_t at = begin; at < end; at += kTile) {
    const std::int64_t n = std::min(kTile, end - at);
    for (std::size_t k = 0; k < tiles.size(); ++k)
      tiles[k] = operands[k].read(at, n, loop.operand, buffer(k));
    loop.tile(loop.functor, target.target(at, loop.result, result), tiles.data(), n);
    target.finish(at, n, loop.result, result);
  }
}

void run_loop(const PointwiseLoop& loop, const TileOperand& target, const Operands& operands,
              std::int64_t total) {
  cpu::parallel_for(total, 32 * kTile, [&](std::int64_t begin, std::int64_t end) {
    run_tiles(loop, target, operands, begin, end);
  });
}

}  // namespace

bool lies_alike(const View& out, std::span<const View> in) {
  return (layout::is_contiguous(out.shape, out.strides) ||
          layout::is_dense_in(out.shape, out.strides, MemoryFormat::channels_last)) &&
         std::all_of(in.begin(), in.end(), [&](const View& view) { return view.strides == out.strides; });
}

void pointwise_linear(const PointwiseLoop& loop, const View& out, std::span<const View> in) {
  const std::int64_t total = layout::numel(out.shape);
  Operands operands;
  operands.reserve(in.size());
  for (const View& view : in) operands.emplace_back(view);
  run_loop(loop, TileOperand(out), operands, total);
}

void pointwise_strided(const PointwiseLoop& loop, const View& out, std::span<const View> in) {
  SmallVector<Dims, 5> strides;
  strides.reserve(in.size() + 1);
  for (const View& view : in) strides.push_back(view.strides);
  strides.push_back(out.strides);
  const std::span<Dims> all(strides.data(), strides.size());
  Shape shape = out.shape;
  layout::order_along(shape, all, in.size());
  layout::collapse(shape, all);
  Operands operands;
  operands.reserve(in.size());
  for (std::size_t k = 0; k < in.size(); ++k) operands.emplace_back(in[k], shape, strides[k]);
  run_loop(loop, TileOperand(out, shape, strides.back()), operands, layout::numel(out.shape));
}

}  // namespace mezzo::kernels::cpu::detail
