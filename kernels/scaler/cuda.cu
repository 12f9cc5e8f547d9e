// The CUDA kernels of loss scaling. Nothing is read back: what they find and decide stays in the records.
#include "mezzo/kernels/scaler/scaler.h"

#include "mezzo/core/cuda/fault.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/batch.h"
#include "mezzo/kernels/cuda/runs.h"
#include "mezzo/kernels/cuda/start.h"
#include "mezzo/kernels/scaler/scaler_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// A gradient, and the index of the parameter it is of.
struct Gradient : Run {
  std::uint32_t parameter = 0;
};

struct Target {
  ScalerRecord* record;
  const mezzo::cuda::Fault* fault;
};

/// Looks at elements of a gradient and, with kUnscale and a scale other than 1, writes them times inv_scale.
/// The calls return 1 when one of them was not finite.
template <class T, bool kUnscale>
struct Looker {
  UnscaleFn unscale;

  __device__ explicit Looker(const Target& target) : unscale{kUnscale ? target.record->inv_scale : 1.0F} {}

  __device__ MEZZO_ALWAYS_INLINE std::uint32_t pack(const Array& array, std::int64_t i) const {
    T values[kPack];
    load_pack<T, Among::floating>(array.data, array.dtype, i, values);
    std::uint32_t found = 0;
    for (int k = 0; k < kPack; ++k) found |= NonFiniteFn{}(values[k]);
    if (kUnscale && unscale.inv_scale != 1.0F) {
      for (int k = 0; k < kPack; ++k) values[k] = unscale(values[k]);
      store_pack<T, Among::floating>(array.data, array.dtype, i, values);
    }
    return found;
  }
  __device__ MEZZO_ALWAYS_INLINE std::uint32_t one(const Array& array, std::int64_t i) const {
    const T value = load<T, Among::floating>(array.data, array.dtype, i);
    if (kUnscale && unscale.inv_scale != 1.0F)
      store<T, Among::floating>(array.data, array.dtype, i, unscale(value));
    return NonFiniteFn{}(value);
  }
};

/// Plain stores of found_inf, because all threads that come here write the same. The least parameter wins
/// whatever the order; only a thread that met a value that is not finite pays for it.
__device__ MEZZO_ALWAYS_INLINE void note(const Target& target, std::uint32_t parameter) {
  target.record->found_inf = 1;
  atomicMin(&target.record->first_nonfinite, parameter);
}
__device__ MEZZO_ALWAYS_INLINE void note_fault(const Target& target) {
  if (target.fault->flag != 0) target.record->found_inf = 1;
}

template <bool kUnscale, std::size_t kMost>
__global__ void __launch_bounds__(kThreads)
    look_at_batch(const Batch<Gradient, kMost> __grid_constant__ batch, Target target) {
  // Nothing to write then, and no more to learn: parameters rise.
  if (!kUnscale && target.record->first_nonfinite <= batch.items[0].parameter) return;
  for_each_range(batch, [&](const Gradient& gradient, std::int64_t first, std::int64_t last) {
    std::uint32_t found = 0;
    with_compute(gradient.array.dtype, [&](auto number) {
      const Looker<decltype(number), kUnscale> look(target);
      for_each_element(
          gradient.packed, first, last, [&](std::int64_t i) { found |= look.pack(gradient.array, i); },
          [&](std::int64_t i) { found |= look.one(gradient.array, i); });
    });
    if (found != 0) note(target, gradient.parameter);
  });
  note_fault(target);
}

template <bool kUnscale>
__global__ void __launch_bounds__(kThreads)
    look_at_strided(Array array, Space<1> space, Target target, std::uint32_t parameter) {
  std::uint32_t found = 0;
  with_compute(array.dtype, [&](auto number) {
    const Looker<decltype(number), kUnscale> look(target);
    for (std::int64_t i = first_index(); i < space.total(); i += grid_size()) {
      found |= look.one(array, space.offset(i));
    }
  });
  if (found != 0) note(target, parameter);
  note_fault(target);
}

template <bool kUnscale>
void look_at(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const Target target{record, mezzo::cuda::fault_record(device)};
  const auto make = [&](const View& view) -> std::optional<Gradient> {
    const std::uint32_t parameter = owners.of(static_cast<std::size_t>(&view - gradients.data()));
    const Space<1> space = space_in_memory_order(view);
    if (const std::optional<Run> run = run_of(view, space)) return Gradient{*run, parameter};
    start(device, space.total(), look_at_strided<kUnscale>, array_of(view), space, target, parameter);
    return std::nullopt;
  };
  const auto run = [&]<std::size_t kMost>(const Batch<Gradient, kMost>& batch) {
    mezzo::cuda::launch(look_at_batch<kUnscale, kMost>, dim3(batch.blocks()), dim3(kThreads), 0, stream,
                        batch, target);
  };
  in_batches<Gradient>(gradients, make, run);
}

/// Records of optimizers as a kernel's argument.
struct Records {
  static constexpr std::size_t kMost = 128;
  const ScalerRecord* records[kMost] = {};
  std::int32_t count = 0;
  bool more = false;  ///< main->found_inf holds what records before these found

  [[nodiscard]] __device__ bool found(const ScalerRecord& main) const {
    bool any = more && main.found_inf != 0;
    for (std::int32_t i = 0; i < count; ++i) any = any || records[i]->found_inf != 0;
    return any;
  }
};

__global__ void gather_found(ScalerRecord* main, Records records) {
  main->found_inf = records.found(*main) ? 1U : 0U;
}

__global__ void move_scale(ScalerRecord* main, Records records, UpdateScaleFn update) {
  update(*main, records.found(*main));
}

/// `from` in device memory when it is given, else `value`.
__global__ void replace_scale(ScalerRecord* main, Records records, bool counts, float value,
                              const float* from) {
  if (counts) UpdateScaleFn::count(*main, records.found(*main));
  SetScaleFn{}(*main, from != nullptr ? *from : value);
}

/// Starts a kernel of one thread.
template <class... Params, class... Args>
void launch_one(Device device, void (*kernel)(Params...), Args... args) {
  mezzo::cuda::launch(kernel, dim3(1), dim3(1), 0, mezzo::cuda::current_stream(device), args...);
}

/// The records as an argument. Records that do not fit into it are gathered in main->found_inf before.
Records records_of(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers) {
  Records records;
  for (const ScalerRecord* const optimizer : optimizers) {
    if (records.count == Records::kMost) {
      launch_one(device, gather_found, main, records);
      records.count = 0;
      records.more = true;
    }
    records.records[records.count++] = optimizer;
  }
  return records;
}

}  // namespace

void check_finite(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners) {
  look_at<false>(device, gradients, record, owners);
}

void unscale(Device device, std::span<const View> gradients, ScalerRecord* record, Owners owners) {
  look_at<true>(device, gradients, record, owners);
}

void update_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                  const ScaleRule& rule) {
  launch_one(device, move_scale, main, records_of(device, main, optimizers),
             UpdateScaleFn{rule.growth_factor, rule.backoff_factor, rule.min_scale, rule.max_scale,
                           rule.growth_interval, rule.hysteresis});
}

void set_scale(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
               float value) {
  launch_one(device, replace_scale, main, records_of(device, main, optimizers), !optimizers.empty(), value,
             static_cast<const float*>(nullptr));
}

void set_scale_from(Device device, ScalerRecord* main, std::span<const ScalerRecord* const> optimizers,
                    const float* value) {
  launch_one(device, replace_scale, main, records_of(device, main, optimizers), !optimizers.empty(), 0.0F,
             value);
}

}  // namespace mezzo::kernels::cuda
