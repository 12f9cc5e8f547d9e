// The CPU side of optimizers: one pass of tiles per parameter. Everything that is "in device memory" is host
// memory here.
#pragma once

#include <array>
#include <utility>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/scaler_math.h"
#include "mezzo/kernels/update_rule.h"

namespace mezzo::kernels::cpu {

namespace update_detail {

template <class F, class T>
struct UpdateTile {
  /// p and states are read and written in place; `unscaled` receives g * inv_scale unless it is null.
  static void run(F f, T* p_out, const T* p, const T* g, T* unscaled, std::array<T*, 3> out,
                  std::array<const T*, 3> in, std::int64_t n, UnscaleFn unscale) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      T state[3] = {};
      for (int s = 0; s < F::kStates; ++s) state[s] = in[static_cast<std::size_t>(s)][i];
      const T gradient = unscale(g[i]);
      T value = p[i];
      f(value, gradient, state);
      p_out[i] = value;
      if (unscaled != nullptr) unscaled[i] = gradient;
      for (int s = 0; s < F::kStates; ++s) out[static_cast<std::size_t>(s)][i] = state[s];
    }
  }
};

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

template <class F, class T>
void update_tile(const Operands& operands, const ParameterUpdate& update, F f, UnscaleFn unscale,
                 bool write_gradient, std::int64_t at, std::int64_t n) {
  TileBuffer<T> value_in, value_out, gradient_in, gradient_out;
  std::array<TileBuffer<T>, static_cast<std::size_t>(F::kStates)> state_in, state_out;
  std::array<T*, 3> out{};
  std::array<const T*, 3> in{};
  // != because nvcc warns of < where there are no states.
  for (std::size_t s = 0; s != state_in.size(); ++s) {
    in[s] = operands.state[s].read<T>(at, n, state_in[s]);
    out[s] = operands.state[s].target<T>(at, state_out[s]);
  }
  const T* p = operands.value.read<T>(at, n, value_in);
  const T* g = operands.gradient.read<T>(at, n, gradient_in);
  T* p_out = operands.value.target<T>(at, value_out);
  T* g_out = write_gradient ? operands.gradient.target<T>(at, gradient_out) : nullptr;
  run_isa<UpdateTile<F, T>>(f, p_out, p, g, g_out, out, in, n, unscale);
  for (std::size_t s = 0; s != state_in.size(); ++s) operands.state[s].finish<T>(at, n, state_out[s]);
  operands.value.finish<T>(at, n, value_out);
  if (write_gradient) operands.gradient.finish<T>(at, n, gradient_out);
  for (std::size_t c = 0; c < update.copies.size(); ++c) {
    if (update.copies[c].data != nullptr) operands.copies[c].write<T>(at, n, p_out);
  }
}

/// One parameter: reads and advances its step count, then all its tiles.
template <class F, class T, class Rule>
void update_parameter(const ParameterUpdate& update, const Rule& rule, const UpdateControl& control) {
  const F f = kernels::detail::functor_at<F>(rule, *update.step, *control.rates, update.carried);
  kernels::detail::advance<F>(rule, *control.rates, update.step, update.carried);
  const bool unscales = control.unscale && control.record != nullptr && control.record->inv_scale != 1.0F;
  const UnscaleFn unscale{unscales ? control.record->inv_scale : 1.0F};
  const Operands operands(update);
  parallel_for(layout::numel(update.value.shape), 16 * kTile, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; at += kTile) {
      update_tile<F, T>(operands, update, f, unscale, unscales, at, std::min(kTile, end - at));
    }
  });
}

}  // namespace update_detail

/// See kernels::update.
template <template <class> class F, class Rule>
void update(std::span<const ParameterUpdate> updates, const Rule& rule, const UpdateControl& control) {
  if (control.record != nullptr && (control.record->found_inf != 0 || control.record->error != 0)) return;
  for (const ParameterUpdate& update : updates) {
    if (update.value.dtype == DType::f64)
      update_detail::update_parameter<F<double>, double>(update, rule, control);
    else
      update_detail::update_parameter<F<float>, float>(update, rule, control);
  }
}

}  // namespace mezzo::kernels::cpu
