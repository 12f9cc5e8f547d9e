// The CPU side of optimizers: one parallel loop over tiles of all parameters. Everything that is "in device
// memory" is host memory here.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

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

/// Room for a functor F<T> of any algorithm.
struct alignas(16) FunctorRoom {
  std::byte bytes[128];
};

/// An algorithm in one compute type as the driver sees it, which is one for all optimizers.
struct UpdateLoop {
  const void* rule;
  void (*make)(const void* rule, const ParameterUpdate& update, const Rates& rates, FunctorRoom& functor);
  void (*tile)(const FunctorRoom& functor, const TileArrays& arrays, std::int64_t n, UnscaleFn unscale);
  void (*advance)(const void* rule, const ParameterUpdate& update, const Rates& rates);
  std::size_t states;
  DType type;
};
/// All tiles of all parameters, then their step counts. `loops`: of f32, f64.
void run_updates(std::span<const ParameterUpdate> updates, const std::array<UpdateLoop, 2>& loops,
                 const UpdateControl& control);

template <class F, class T>
void update_tile(const FunctorRoom& functor, const TileArrays& arrays, std::int64_t n, UnscaleFn unscale) {
  std::array<T*, 3> out;
  std::array<const T*, 3> in;
  for (std::size_t s = 0; s < out.size(); ++s) {
    out[s] = static_cast<T*>(arrays.out[s]);
    in[s] = static_cast<const T*>(arrays.in[s]);
  }
  run_isa<UpdateTile<F, T>>(*std::launder(reinterpret_cast<const F*>(functor.bytes)),
                            static_cast<T*>(arrays.p_out), static_cast<const T*>(arrays.p),
                            static_cast<const T*>(arrays.g), static_cast<T*>(arrays.unscaled), out, in, n,
                            unscale);
}

template <class F, class T, class Rule>
UpdateLoop loop_of(const Rule& rule) {
  static_assert(sizeof(F) <= sizeof(FunctorRoom) && alignof(F) <= alignof(FunctorRoom));
  static_assert(std::is_trivially_copyable_v<F>);
  const auto make = [](const void* of, const ParameterUpdate& update, const Rates& rates, FunctorRoom& to) {
    ::new (to.bytes)
        F(kernels::detail::functor_at<F>(*static_cast<const Rule*>(of), *update.step, rates, update.carried));
  };
  const auto advance = [](const void* of, const ParameterUpdate& update, const Rates& rates) {
    kernels::detail::advance<F>(*static_cast<const Rule*>(of), rates, update.step, update.carried);
  };
  return {&rule, make, update_tile<F, T>, advance, static_cast<std::size_t>(F::kStates), dtype_of<T>};
}

}  // namespace update_detail

/// See kernels::update.
template <template <class> class F, class Rule>
void update(std::span<const ParameterUpdate> updates, const Rule& rule, const UpdateControl& control) {
  using namespace update_detail;
  run_updates(updates, {loop_of<F<float>, float>(rule), loop_of<F<double>, double>(rule)}, control);
}

}  // namespace mezzo::kernels::cpu
