// The CPU side of optimizers: one pass of tiles per parameter. Everything that is "in device memory" is host
// memory here.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/optim/update_rule.h"
#include "mezzo/kernels/scaler/scaler_math.h"

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

/// The arrays of a tile. `unscaled` is nullptr unless unscaled gradients are wanted.
struct TileArrays {
  void* p_out;
  const void* p;
  const void* g;
  void* unscaled;
  std::array<void*, 3> out;
  std::array<const void*, 3> in;
};

/// The step of one parameter as its driver sees it, which is one for all optimizers: the loop of a tile by
/// address.
struct UpdateLoop {
  const void* functor;
  void (*tile)(const void* functor, const TileArrays& arrays, std::int64_t n, UnscaleFn unscale);
  std::size_t states;
  DType type;
  UnscaleFn unscale;
  bool write_gradient;
};
void run_update(const ParameterUpdate& update, const UpdateLoop& loop);

template <class F, class T>
void update_tile(const void* functor, const TileArrays& arrays, std::int64_t n, UnscaleFn unscale) {
  std::array<T*, 3> out;
  std::array<const T*, 3> in;
  for (std::size_t s = 0; s < out.size(); ++s) {
    out[s] = static_cast<T*>(arrays.out[s]);
    in[s] = static_cast<const T*>(arrays.in[s]);
  }
  run_isa<UpdateTile<F, T>>(*static_cast<const F*>(functor), static_cast<T*>(arrays.p_out),
                            static_cast<const T*>(arrays.p), static_cast<const T*>(arrays.g),
                            static_cast<T*>(arrays.unscaled), out, in, n, unscale);
}

/// One parameter: reads and advances its step count, then all its tiles.
template <class F, class T, class Rule>
void update_parameter(const ParameterUpdate& update, const Rule& rule, const UpdateControl& control) {
  const F f = kernels::detail::functor_at<F>(rule, *update.step, *control.rates, update.carried);
  kernels::detail::advance<F>(rule, *control.rates, update.step, update.carried);
  const bool unscales = control.unscale && control.record != nullptr && control.record->inv_scale != 1.0F;
  const UnscaleFn unscale{unscales ? control.record->inv_scale : 1.0F};
  run_update(update, {&f, update_tile<F, T>, static_cast<std::size_t>(F::kStates), dtype_of<T>, unscale,
                      unscales && control.write_unscaled});
}

}  // namespace update_detail

/// See kernels::update.
template <template <class> class F, class Rule>
void update(std::span<const ParameterUpdate> updates, const Rule& rule, const UpdateControl& control) {
  if (control.record != nullptr && control.record->found_inf != 0) return;
  for (const ParameterUpdate& update : updates) {
    if (update.value.dtype == DType::f64)
      update_detail::update_parameter<F<double>, double>(update, rule, control);
    else
      update_detail::update_parameter<F<float>, float>(update, rule, control);
  }
}

}  // namespace mezzo::kernels::cpu
