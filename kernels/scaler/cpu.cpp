// The CPU side of loss scaling: tiles of each gradient, and the scale rule on a record in host memory.
#include "mezzo/kernels/scaler/scaler.h"

#include <algorithm>
#include <atomic>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/pointwise/pointwise.h"
#include "mezzo/kernels/scaler/scaler_math.h"

namespace mezzo::kernels::cpu {

namespace {

/// Ors the test over a tile. The verdict is one bit, so the order of the elements does not show.
template <class T>
struct AnyNonFinite {
  static std::uint32_t run(const T* x, std::int64_t n) {
    std::uint32_t found = 0;
    for (std::int64_t i = 0; i < n; ++i) found |= NonFiniteFn{}(x[i]);
    return found;
  }
};

template <class T>
struct UnscaleTile {
  static void run(T* out, const T* x, std::int64_t n, UnscaleFn f) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(x[i]);
  }
};

/// Runs f(operand, begin, n) for every tile of a gradient; whether any call returned nonzero.
template <class F>
bool any_tile(const View& view, F f) {
  const TileOperand operand = tiles_in_memory_order(view);
  std::atomic<std::uint32_t> found{0};
  parallel_for(layout::numel(view.shape), 32 * kTile, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t mine = 0;
    for (std::int64_t at = begin; at < end; at += kTile) mine |= f(operand, at, std::min(kTile, end - at));
    if (mine != 0) found.store(1, std::memory_order_relaxed);
  });
  return found.load() != 0;
}

template <class T>
std::uint32_t check_tile(const TileOperand& operand, std::int64_t at, std::int64_t n) {
  TileBuffer<T> buffer;
  return run_isa<AnyNonFinite<T>>(operand.read<T>(at, n, buffer), n);
}

template <class T>
std::uint32_t unscale_tile(const TileOperand& operand, std::int64_t at, std::int64_t n, UnscaleFn f) {
  TileBuffer<T> buffer, result;
  const T* tile = operand.read<T>(at, n, buffer);
  const std::uint32_t found = run_isa<AnyNonFinite<T>>(tile, n);
  if (f.inv_scale != 1.0F) {
    run_isa<UnscaleTile<T>>(operand.target<T>(at, result), tile, n, f);
    operand.finish<T>(at, n, result);
  }
  return found;
}

/// Notes a gradient that is not finite.
void note(ScalerRecord& record, std::uint32_t parameter) {
  record.found_inf = 1;
  record.first_nonfinite = std::min(record.first_nonfinite, parameter);
}

bool any_found(std::span<const ScalerRecord* const> optimizers) {
  return std::any_of(optimizers.begin(), optimizers.end(),
                     [](const ScalerRecord* record) { return record->found_inf != 0; });
}

}  // namespace

void check_finite(std::span<const View> gradients, ScalerRecord* record, Owners owners) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const View& view = gradients[i];
    const bool found =
        dispatch_compute(view.dtype, [&]<class T>(TypeTag<T>) { return any_tile(view, check_tile<T>); });
    if (found) note(*record, owners.of(i));
  }
}

void unscale(std::span<const View> gradients, ScalerRecord* record, Owners owners) {
  const UnscaleFn f{record->inv_scale};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const View& view = gradients[i];
    const bool found = dispatch_compute(view.dtype, [&]<class T>(TypeTag<T>) {
      return any_tile(view, [&](const TileOperand& operand, std::int64_t at, std::int64_t n) {
        return unscale_tile<T>(operand, at, n, f);
      });
    });
    if (found) note(*record, owners.of(i));
  }
}

void update_scale(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                  const ScaleRule& rule) {
  UpdateScaleFn{rule.growth_factor, rule.backoff_factor,  rule.min_scale,
                rule.max_scale,     rule.growth_interval, rule.hysteresis}(*main, any_found(optimizers));
}

void set_scale(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, float value) {
  if (!optimizers.empty()) UpdateScaleFn::count(*main, any_found(optimizers));
  SetScaleFn{}(*main, value);
}

void set_scale_from(ScalerRecord* main, std::span<const ScalerRecord* const> optimizers, const float* value) {
  set_scale(main, optimizers, *value);
}

}  // namespace mezzo::kernels::cpu
