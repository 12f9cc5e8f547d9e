// The parallel loop of an optimizer's step, for all optimizers.
#include "mezzo/kernels/optim/cpu_update.h"

#include <algorithm>

#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/optim/cpu_pieces.h"

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

/// One chunk's functor of an algorithm in one compute type. Parameters mostly are at one step, so the powers
/// in F::at are taken once.
class ChunkFunctor {
 public:
  explicit ChunkFunctor(const UpdateLoop& loop) : loop_(loop) {}
  const FunctorRoom& at(const ParameterUpdate& update, const Rates& rates) {
    const double carried = update.carried != nullptr ? *update.carried : 0;
    if (*update.step != step_ || carried != carried_) {
      loop_.make(loop_.rule, update, rates, functor_);
      step_ = *update.step;
      carried_ = carried;
    }
    return functor_;
  }

 private:
  const UpdateLoop& loop_;
  FunctorRoom functor_{};
  std::int64_t step_ = -1;  // none yet
  double carried_ = 0;
};

/// Updates one tile after the other of a parameter.
struct Piece {
  const ParameterUpdate& update;
  const UpdateLoop& loop;
  const FunctorRoom& functor;
  UnscaleFn unscale;
  bool write_gradient;
  Buffers& buffers;
  Operands operands{update};

  void tile(std::int64_t at, std::int64_t n) {
    TileArrays arrays{};
    for (std::size_t s = 0; s < loop.states; ++s) {
      arrays.in[s] = operands.state[s].read(at, n, loop.type, buffers.state_in[s].values);
      arrays.out[s] = operands.state[s].target(at, loop.type, buffers.state_out[s].values);
    }
    arrays.p = operands.value.read(at, n, loop.type, buffers.value_in.values);
    arrays.g = operands.gradient.read(at, n, loop.type, buffers.gradient_in.values);
    arrays.p_out = operands.value.target(at, loop.type, buffers.value_out.values);
    if (write_gradient)
      arrays.unscaled = operands.gradient.target(at, loop.type, buffers.gradient_out.values);
    loop.tile(functor, arrays, n, unscale);
    for (std::size_t s = 0; s < loop.states; ++s)
      operands.state[s].finish(at, n, loop.type, buffers.state_out[s].values);
    operands.value.finish(at, n, loop.type, buffers.value_out.values);
    if (write_gradient) operands.gradient.finish(at, n, loop.type, buffers.gradient_out.values);
    for (std::size_t c = 0; c < update.copies.size(); ++c) {
      if (update.copies[c].data != nullptr) operands.copies[c].write(at, n, loop.type, arrays.p_out);
    }
  }
};

}  // namespace

void run_updates(std::span<const ParameterUpdate> updates, const std::array<UpdateLoop, 2>& loops,
                 const UpdateControl& control) {
  if (control.record != nullptr && control.record->found_inf != 0) return;
  const bool unscales = control.unscale && control.record != nullptr && control.record->inv_scale != 1.0F;
  const UnscaleFn unscale{unscales ? control.record->inv_scale : 1.0F};
  const auto size = [&](std::size_t i) { return layout::numel(updates[i].value.shape); };
  const auto is_f64 = [](const ParameterUpdate& update) { return update.value.dtype == DType::f64; };
  const Pieces pieces(updates.size(), size);
  pieces.run([&](std::int64_t chunk) {
    Buffers buffers;
    ChunkFunctor functors[2]{ChunkFunctor(loops[0]), ChunkFunctor(loops[1])};
    pieces.each(chunk, size, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
      const ParameterUpdate& update = updates[i];
      const std::size_t type = is_f64(update) ? 1 : 0;
      Piece piece{update,
                  loops[type],
                  functors[type].at(update, *control.rates),
                  unscale,
                  unscales && control.write_unscaled,
                  buffers};
      for (std::int64_t at = begin; at < end; at += kTile) piece.tile(at, std::min(kTile, end - at));
    });
  });
  // Behind the loop: all pieces of a parameter see the same count.
  for (const ParameterUpdate& update : updates) {
    const UpdateLoop& loop = loops[is_f64(update) ? 1 : 0];
    loop.advance(loop.rule, update, *control.rates);
  }
}

}  // namespace mezzo::kernels::cpu::update_detail
