// The tiles of an optimizer's step, for all optimizers.
#include "mezzo/kernels/optim/cpu_update.h"

#include <algorithm>

#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"

namespace mezzo::kernels::cpu::update_detail {

namespace {

/// The operands of one parameter, laid out for tiles over its shape.
struct Operands {
  explicit Operands(const ParameterUpdate& update)
      : value(of(update.value, update)),
        gradient(of(update.gradient, update)),
        state{of(update.state[0], update), of(update.state[1], update), of(update.state[2], update)},
        copies{of(update.copies[0], update), of(update.copies[1], update), of(update.copies[2], update)} {}
  TileOperand value, gradient;
  std::array<TileOperand, 3> state, copies;

 private:
  static TileOperand of(const View& view, const ParameterUpdate& update) {
    return view.data == nullptr ? TileOperand(view) : TileOperand(view, update.value.shape, view.strides);
  }
};

/// Memory of the tiles of one thread, wide enough for every compute type.
struct Buffers {
  TileBuffer<double> value_in, value_out, gradient_in, gradient_out;
  std::array<TileBuffer<double>, 3> state_in, state_out;
};

void update_tile(const Operands& operands, const ParameterUpdate& update, const UpdateLoop& loop,
                 Buffers& buffers, std::int64_t at, std::int64_t n) {
  TileArrays arrays{};
  for (std::size_t s = 0; s < loop.states; ++s) {
    arrays.in[s] = operands.state[s].read(at, n, loop.type, buffers.state_in[s].values);
    arrays.out[s] = operands.state[s].target(at, loop.type, buffers.state_out[s].values);
  }
  arrays.p = operands.value.read(at, n, loop.type, buffers.value_in.values);
  arrays.g = operands.gradient.read(at, n, loop.type, buffers.gradient_in.values);
  arrays.p_out = operands.value.target(at, loop.type, buffers.value_out.values);
  if (loop.write_gradient)
    arrays.unscaled = operands.gradient.target(at, loop.type, buffers.gradient_out.values);
  loop.tile(loop.functor, arrays, n, loop.unscale);
  for (std::size_t s = 0; s < loop.states; ++s)
    operands.state[s].finish(at, n, loop.type, buffers.state_out[s].values);
  operands.value.finish(at, n, loop.type, buffers.value_out.values);
  if (loop.write_gradient) operands.gradient.finish(at, n, loop.type, buffers.gradient_out.values);
  for (std::size_t c = 0; c < update.copies.size(); ++c) {
    if (update.copies[c].data != nullptr) operands.copies[c].write(at, n, loop.type, arrays.p_out);
  }
}

}  // namespace

void run_update(const ParameterUpdate& update, const UpdateLoop& loop) {
  const Operands operands(update);
  parallel_for(layout::numel(update.value.shape), 16 * kTile, [&](std::int64_t begin, std::int64_t end) {
    Buffers buffers;
    for (std::int64_t at = begin; at < end; at += kTile)
      update_tile(operands, update, loop, buffers, at, std::min(kTile, end - at));
  });
}

}  // namespace mezzo::kernels::cpu::update_detail
