// The CUDA side of optimizers: one launch for as many parameters as fit into a kernel's arguments, and one
// for each parameter whose arrays do not all lie in one run. A fault of the device (core/cuda/fault.h) skips
// the update as found_inf does. Needs UpdateControl::ticket. Step counts are advanced by the block that
// finishes last: a second launch for that would cost a small network more than all its updates, and without
// it a block could read a count that another one has advanced already.
#pragma once

#include <optional>

#include "mezzo/core/cuda/fault.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/batch.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/last_block.h"
#include "mezzo/kernels/cuda/shared.h"
#include "mezzo/kernels/optim/cuda_slots.h"
#include "mezzo/kernels/optim/update_rule.h"
#include "mezzo/kernels/scaler/scaler_math.h"

namespace mezzo::kernels::cuda {

namespace update_detail {

/// UpdateControl and the device's fault.
struct Control {
  const Rates* rates;
  const ScalerRecord* record;
  const mezzo::cuda::Fault* fault;
  std::uint32_t* ticket;
  bool unscale, write_unscaled;

  [[nodiscard]] __device__ bool skips() const {
    if (fault->flag != 0) return true;
    return record != nullptr && record->found_inf != 0;
  }
};

/// Numbers that the threads of a block share. Every thread makes one.
template <class F>
class BlockTalk {
 public:
  static constexpr std::size_t kSkipsAt = (sizeof(F) + 15) / 16 * 16;
  static constexpr std::size_t kLastAt = kSkipsAt + sizeof(std::uint32_t);
  static constexpr std::size_t kBytes = kLastAt + sizeof(std::uint32_t);

  __device__ BlockTalk() : functor_(1), skips_(1, kSkipsAt) {}
  /// Whether the step is skipped; one thread looks, so that all of a block agree whatever happens meanwhile.
  [[nodiscard]] __device__ bool skips(const Control& control) const {
    if (threadIdx.x == 0) skips_.set(0, control.skips() ? 1U : 0U);
    __syncthreads();
    return skips_.get(0) != 0;
  }
  /// F::at for the next step of a parameter, worked out once per block: it holds two pow of f64.
  template <class Rule, class AnySlot>
  [[nodiscard]] __device__ F functor(const Rule& rule, const AnySlot& slot, const Control& control) const {
    if (threadIdx.x == 0) {
      functor_.set(0, kernels::detail::functor_at<F>(rule, *slot.step, *control.rates, slot.carried));
    }
    __syncthreads();
    const F f = functor_.get(0);
    __syncthreads();
    return f;
  }
  /// Whether all other blocks of the launch are done. Each block must ask once, skipping or not, or the
  /// ticket would not be 0 again at the end.
  [[nodiscard]] __device__ bool is_last(const Control& control) const {
    return is_last_block(control.ticket, gridDim.x, kLastAt);
  }

 private:
  Shared<F> functor_;
  Shared<std::uint32_t> skips_;
};

/// The update of elements of one parameter. kNarrow: SlotBase::is_narrow, apart so that the other kernels
/// need no registers for it.
template <class F, class T, bool kNarrow>
struct Updater {
  F f;
  UnscaleFn unscale;
  bool write_gradient;

  __device__ Updater(const F& functor, const Control& control)
      : f(functor),
        unscale{control.unscale && control.record != nullptr ? control.record->inv_scale : 1.0F},
        write_gradient(control.write_unscaled && unscale.inv_scale != 1.0F) {}

  /// Copies of a split master end where its remainder is.
  [[nodiscard]] __device__ static int end_of_copies(const SlotBase& slot) {
    return kNarrow && slot.is_split ? kRemainder : kArrays;
  }

  __device__ MEZZO_ALWAYS_INLINE void pack(const SlotBase& slot, std::int64_t i) const {
    const auto& arrays = slot.arrays;
    const auto store = [&](int k, const T* values) {
      store_pack<T, Among::floating>(arrays[k].data, arrays[k].dtype, i, values);
    };
    T p[kPack], g[kPack];
    Pack<T> states[F::kStates + 1];
    // States first: whoever widens what it loads waits for it before the next load.
    for (int s = 0; s < F::kStates; ++s) states[s] = static_cast<const Pack<T>*>(arrays[kState + s].data)[i];
    if constexpr (kNarrow)
      NarrowValues(slot).load_pack(i, p);
    else
      load_pack<T, Among::floating>(arrays[kValue].data, arrays[kValue].dtype, i, p);
    load_pack<T, Among::floating>(arrays[kGradient].data, arrays[kGradient].dtype, i, g);
    for (int k = 0; k < kPack; ++k) {
      T state[3] = {};
      for (int s = 0; s < F::kStates; ++s) state[s] = states[s].values[k];
      g[k] = unscale(g[k]);
      f(p[k], g[k], state);
      for (int s = 0; s < F::kStates; ++s) states[s].values[k] = state[s];
    }
    if constexpr (kNarrow)
      NarrowValues(slot).store_pack(i, p);
    else
      store(kValue, p);
    if (write_gradient) store(kGradient, g);
    for (int s = 0; s < F::kStates; ++s) static_cast<Pack<T>*>(arrays[kState + s].data)[i] = states[s];
    for (int c = kCopy; c < end_of_copies(slot); ++c) {
      if (arrays[c].data != nullptr) store(c, p);
    }
  }

  /// Element i; offset(k): where it is in array k.
  template <class Offset>
  __device__ MEZZO_ALWAYS_INLINE void one(const SlotBase& slot, std::int64_t i, const Offset& offset) const {
    T state[3] = {};
    for (int s = 0; s < F::kStates; ++s) {
      const Array& array = slot.arrays[kState + s];
      state[s] = load<T, Among::floating>(array.data, array.dtype, offset(kState + s));
    }
    one_of_states(slot, i, offset, state);
    for (int s = 0; s < F::kStates; ++s) {
      const Array& array = slot.arrays[kState + s];
      store<T, Among::floating>(array.data, array.dtype, offset(kState + s), state[s]);
    }
  }
  /// The same of an element whose states somebody else reads and writes.
  template <class Offset>
  __device__ MEZZO_ALWAYS_INLINE void one_of_states(const SlotBase& slot, std::int64_t i,
                                                    const Offset& offset, T* state) const {
    const auto& arrays = slot.arrays;
    const auto get = [&](int k) {
      return load<T, Among::floating>(arrays[k].data, arrays[k].dtype, offset(k));
    };
    const auto set = [&](int k, T value) {
      store<T, Among::floating>(arrays[k].data, arrays[k].dtype, offset(k), value);
    };
    const T g = unscale(get(kGradient));
    T p;
    if constexpr (kNarrow) {
      const NarrowValues narrow(slot);
      p = narrow.load(offset(kValue), offset(kRemainder));
      f(p, g, state);
      narrow.store(i, offset(kValue), offset(kRemainder), p);
    } else {
      p = get(kValue);
      f(p, g, state);
      set(kValue, p);
    }
    if (write_gradient) set(kGradient, g);
    for (int c = kCopy; c < end_of_copies(slot); ++c) {
      if (arrays[c].data != nullptr) set(c, p);
    }
  }
};

template <class F, class T, bool kNarrow, class Rule, std::size_t kMost>
__global__ void __launch_bounds__(kThreads)
    update_batch(const Batch<UpdateSlot, kMost> __grid_constant__ batch, Rule rule, Control control) {
  const BlockTalk<F> talk;
  const bool skips = talk.skips(control);
  if (!skips) {
    for_each_range(batch, [&](const UpdateSlot& slot, std::int64_t first, std::int64_t last) {
      const Updater<F, T, kNarrow> updater(talk.functor(rule, slot, control), control);
      for_each_element(
          slot.packed, first, last, [&](std::int64_t i) { updater.pack(slot, i); },
          [&](std::int64_t i) { updater.one(slot, i, [i](int /*k*/) { return i; }); });
    });
  }
  if (!talk.is_last(control) || skips) return;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(batch.count); i += blockDim.x) {
    kernels::detail::advance<F>(rule, *control.rates, batch.items[i].step, batch.items[i].carried);
  }
}

template <class F, class T, bool kNarrow, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_strided(StridedUpdateSlot slot, Rule rule, Control control) {
  const BlockTalk<F> talk;
  const bool skips = talk.skips(control);
  if (!skips) {
    const Updater<F, T, kNarrow> updater(talk.functor(rule, slot, control), control);
    for (std::int64_t i = first_index(); i < slot.space.total(); i += grid_size()) {
      std::int64_t at[kArrays];
      slot.space.offsets(i, at);
      updater.one(slot, i, [&at](int k) { return at[k]; });
    }
  }
  if (talk.is_last(control) && !skips && threadIdx.x == 0)
    kernels::detail::advance<F>(rule, *control.rates, slot.step, slot.carried);
}

/// The tables of Moments8 in shared memory, those of moments with a sign first.
class MomentTables {
 public:
  static constexpr std::size_t kBytes = 4 * 256 * sizeof(float);

  /// Filled by all threads of a block, which must meet before they read.
  __device__ explicit MomentTables(std::size_t offset)
      : entries_(512, offset), borders_(512, offset + kBytes / 2) {
    for (unsigned i = threadIdx.x; i < 512; i += blockDim.x) {
      const bool has_sign = i < 256;
      const auto code = static_cast<int>(i % 256);
      entries_.set(i, Moments8::entry(has_sign, code));
      borders_.set(i, code == 0 ? 0.0F : Moments8::border(has_sign, code));
    }
  }
  [[nodiscard]] __device__ float entry(bool has_sign, std::uint8_t code) const {
    return entries_.get((has_sign ? 0U : 256U) + code);
  }
  [[nodiscard]] __device__ std::uint8_t code_of(bool has_sign, float x) const {
    const unsigned first = has_sign ? 0 : 256;
    return Moments8::code_of(
        has_sign, [&](int code) { return borders_.get(first + static_cast<unsigned>(code)); }, x);
  }

 private:
  Shared<float> entries_, borders_;
};

/// Blocks of moments, one for each warp at a time.
template <class F, class Rule, std::size_t kMost>
__global__ void __launch_bounds__(kThreads)
    update_packed(const Batch<PackedSlot, kMost> __grid_constant__ batch, Rule rule, Control control) {
  constexpr int kEach = static_cast<int>(Moments8::kBlock / std::int64_t{kWarp});
  const BlockTalk<F> talk;
  const MomentTables tables(BlockTalk<F>::kBytes);
  const bool skips = talk.skips(control);  // where the threads meet
  const auto lane = static_cast<std::int64_t>(threadIdx.x % kWarp);
  const auto each = [&](const PackedSlot& slot, std::int64_t first, std::int64_t last) {
    const Updater<F, float, true> updater(talk.functor(rule, slot, control), control);
    const auto has_sign = [&](int s) { return (slot.nonnegative >> s & 1U) == 0; };
    for (std::int64_t begin = first + std::int64_t{threadIdx.x / kWarp} * Moments8::kBlock; begin < last;
         begin += std::int64_t{kThreads / kWarp} * Moments8::kBlock) {
      const std::int64_t block = begin / Moments8::kBlock;
      float states[F::kStates + 1][kEach] = {}, largest[F::kStates + 1] = {};
      for (int k = 0; k < kEach; ++k) {
        const std::int64_t i = begin + std::int64_t{kWarp} * k + lane;
        if (i >= last) break;
        std::int64_t at[kArrays];
        slot.space.offsets(i, at);
        float state[3] = {};
        for (int s = 0; s < F::kStates; ++s) {
          const auto* const codes = static_cast<const std::uint8_t*>(slot.arrays[kState + s].data);
          state[s] = math::detail::multiply(tables.entry(has_sign(s), codes[i]), slot.scales[s][block]);
        }
        updater.one_of_states(
            slot, i, [&at](int array) { return at[array]; }, state);
        for (int s = 0; s < F::kStates; ++s) {
          states[s][k] = state[s];
          const float magnitude = fabsf(state[s]);
          largest[s] = magnitude > largest[s] ? magnitude : largest[s];
        }
      }
      for (int s = 0; s < F::kStates; ++s) {
        const float whole =
            reduce_warp_everywhere(largest[s], [](float a, float b) { return a > b ? a : b; });
        const float scale = whole > Moments8::kLeastScale ? whole : Moments8::kLeastScale;
        if (lane == 0) slot.scales[s][block] = scale;
        auto* const codes = static_cast<std::uint8_t*>(slot.arrays[kState + s].data);
        for (int k = 0; k < kEach; ++k) {
          const std::int64_t i = begin + std::int64_t{kWarp} * k + lane;
          if (i < last) codes[i] = tables.code_of(has_sign(s), states[s][k] / scale);
        }
      }
    }
  };
  if (!skips) for_each_range(batch, each);
  if (!talk.is_last(control) || skips) return;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(batch.count); i += blockDim.x)
    kernels::detail::advance<F>(rule, *control.rates, batch.items[i].step, batch.items[i].carried);
}

/// f(position, view) for the arrays that are there.
template <class F>
void each_array(const ParameterUpdate& update, const F& f) {
  const auto visit = [&](int k, const View& view) {
    if (view.data != nullptr) f(k, view);
  };
  visit(kValue, update.value);
  visit(kGradient, update.gradient);
  int k = kState;
  for (const View& state : update.state) visit(k++, state);
  k = kCopy;
  for (const View& copy : update.copies) visit(k++, copy);
}

inline SlotBase numbers_of(const ParameterUpdate& update) {
  SlotBase slot;
  slot.step = update.step;
  slot.carried = update.carried;
  slot.first_element = update.first_element;
  slot.number = update.number;
  slot.rounds_at_random = update.rounds_at_random;
  slot.is_split = update.is_split;
  return slot;
}

/// Nothing when an array is not one run of elements.
template <class T>
std::optional<UpdateSlot> slot_of(const ParameterUpdate& update) {
  UpdateSlot slot{numbers_of(update)};
  slot.elements = layout::numel(update.value.shape);
  slot.packed = true;
  bool linear = true;
  each_array(update, [&](int k, const View& view) {
    linear = linear && layout::is_contiguous(update.value.shape, view.strides);
    slot.arrays[k] = {view.data, view.dtype};
    const bool is_state = k >= kState && k < kCopy;
    slot.packed = slot.packed && takes_packs(slot.arrays[k]) && (!is_state || view.dtype == dtype_of<T>);
  });
  return linear ? std::optional(slot) : std::nullopt;
}

inline StridedUpdateSlot strided_slot_of(const ParameterUpdate& update) {
  StridedUpdateSlot slot{numbers_of(update), {}};
  std::array<Dims, kArrays> strides;
  strides.fill(update.value.strides);  // of absent arrays: no matter, as long as dims can become one
  each_array(update, [&](int k, const View& view) {
    slot.arrays[k] = {view.data, view.dtype};
    strides[static_cast<std::size_t>(k)] = view.strides;
  });
  slot.space = Space<kArrays>(update.value.shape, strides);
  return slot;
}

/// Whether F reads and writes moments in 8 bits. One without states leaves those that are there, as SGD whose
/// momentum a schedule has taken to 0.
template <class F>
bool has_codes(const ParameterUpdate& update) {
  return F::kStates > 0 && update.scales[0] != nullptr;
}

/// All parameters whose compute type is T, those of them that are narrow or not.
template <class F, class T, bool kNarrow, class Rule>
void update_all(Device device, std::span<const ParameterUpdate> updates, const Rule& rule,
                const Control& control) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  constexpr std::size_t kShared = BlockTalk<F>::kBytes;
  const auto make = [&](const ParameterUpdate& update) -> std::optional<UpdateSlot> {
    if ((update.value.dtype == DType::f64) != std::is_same_v<T, double>) return std::nullopt;
    if (numbers_of(update).is_narrow() != kNarrow || has_codes<F>(update)) return std::nullopt;
    std::optional<UpdateSlot> slot = slot_of<T>(update);
    if (!slot) {
      const Grid grid = grid_for(std::max<std::int64_t>(layout::numel(update.value.shape), 1));
      mezzo::cuda::launch(update_strided<F, T, kNarrow, Rule>, dim3(grid.blocks), dim3(grid.threads), kShared,
                          stream, strided_slot_of(update), rule, control);
    }
    return slot;
  };
  const auto run = [&]<std::size_t kMost>(const Batch<UpdateSlot, kMost>& batch) {
    static_assert(sizeof(batch) + sizeof(Rule) + sizeof(Control) < 32764, "what a kernel takes as arguments");
    mezzo::cuda::launch(update_batch<F, T, kNarrow, Rule, kMost>, dim3(batch.blocks()), dim3(kThreads),
                        kShared, stream, batch, rule, control);
  };
  in_batches<UpdateSlot>(updates, make, run);
}

/// All parameters with moments in 8 bits.
template <class F, class Rule>
void update_all_packed(Device device, std::span<const ParameterUpdate> updates, const Rule& rule,
                       const Control& control) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const auto make = [&](const ParameterUpdate& update) -> std::optional<PackedSlot> {
    if (!has_codes<F>(update)) return std::nullopt;
    PackedSlot slot{strided_slot_of(update)};
    for (std::size_t s = 0; s < kMaxBuffers; ++s) slot.scales[s] = update.scales[s];
    slot.nonnegative = update.nonnegative;
    slot.elements = layout::numel(update.value.shape);
    return slot;
  };
  const auto run = [&]<std::size_t kMost>(const Batch<PackedSlot, kMost>& batch) {
    constexpr std::size_t kShared = BlockTalk<F>::kBytes + MomentTables::kBytes;
    mezzo::cuda::launch(update_packed<F, Rule, kMost>, dim3(batch.blocks()), dim3(kThreads), kShared, stream,
                        batch, rule, control);
  };
  in_batches<PackedSlot>(updates, make, run);
}

}  // namespace update_detail

/// See kernels::update.
template <template <class> class F, class Rule>
void update(Device device, std::span<const ParameterUpdate> updates, const Rule& rule,
            const UpdateControl& control) {
  if (control.ticket == nullptr)
    throw ValueError("optimizer", "a ticket for a CUDA device", "none", "set UpdateControl::ticket");
  const update_detail::Control arguments{control.rates,  control.record,  mezzo::cuda::fault_record(device),
                                         control.ticket, control.unscale, control.write_unscaled};
  update_detail::update_all<F<float>, float, false>(device, updates, rule, arguments);
  update_detail::update_all<F<float>, float, true>(device, updates, rule, arguments);
  update_detail::update_all<F<double>, double, false>(device, updates, rule, arguments);
  if constexpr (F<float>::kStates > 0)
    update_detail::update_all_packed<F<float>>(device, updates, rule, arguments);
}

}  // namespace mezzo::kernels::cuda
