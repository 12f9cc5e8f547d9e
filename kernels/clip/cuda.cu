// The CUDA kernels of gradient clipping. Nothing is read back: the factor is computed from the norm where it
// lies.
#include "mezzo/kernels/clip/clip.h"

#include <type_traits>

#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/clip/clip_math.h"
#include "mezzo/kernels/cuda/batch.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/runs.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/cuda/start.h"

namespace mezzo::kernels::cuda {

namespace {

/// Changes the elements of an array, of which T is the compute type.
template <class T, class Change>
struct Changer {
  Array array;
  Change change;
  __device__ MEZZO_ALWAYS_INLINE void pack(std::int64_t i) const {
    T values[kPack];
    load_pack<T, Among::floating>(array.data, array.dtype, i, values);
    for (int k = 0; k < kPack; ++k) values[k] = change(values[k]);
    store_pack<T, Among::floating>(array.data, array.dtype, i, values);
  }
  __device__ MEZZO_ALWAYS_INLINE void one(std::int64_t i) const {
    store<T, Among::floating>(array.data, array.dtype, i,
                              change(load<T, Among::floating>(array.data, array.dtype, i)));
  }
};

template <class Rule, std::size_t kMost>
__global__ void __launch_bounds__(kThreads)
    change_batch(const Batch<Run, kMost> __grid_constant__ batch, Rule rule) {
  const auto change = rule.change();
  if (!change.changes()) return;
  for_each_range(batch, [&](const Run& run, std::int64_t first, std::int64_t last) {
    with_compute(run.array.dtype, [&](auto number) {
      const Changer<decltype(number), decltype(rule.change())> changer{run.array, change};
      for_each_element(
          run.packed, first, last, [&](std::int64_t i) { changer.pack(i); },
          [&](std::int64_t i) { changer.one(i); });
    });
  });
}

template <class Rule>
__global__ void __launch_bounds__(kThreads) change_strided(Array array, Space<1> space, Rule rule) {
  const auto change = rule.change();
  if (!change.changes()) return;
  with_compute(array.dtype, [&](auto number) {
    const Changer<decltype(number), decltype(rule.change())> changer{array, change};
    for (std::int64_t i = first_index(); i < space.total(); i += grid_size()) changer.one(space.offset(i));
  });
}

// A norm: every block of every launch adds what it has seen to an accumulator of its own, one launch after
// the other, and one block puts the accumulators together. So the order is fixed by the sizes.

template <class R>
__global__ void __launch_bounds__(kThreads) clear_accumulators(double* accumulators, R reducer) {
  for (std::int64_t i = first_index(); i < kMostBlocks; i += grid_size())
    accumulators[i] = reducer.identity();
}

/// Adds the values of a block's threads to the block's accumulator.
template <class R>
__device__ MEZZO_ALWAYS_INLINE void add_block(double* accumulators, double mine, const R& reducer) {
  Shared<double> scratch(kThreads / kWarp);
  const double sum = reduce_block(
      mine, [&](double a, double b) { return reducer.combine(a, b); }, scratch);
  if (threadIdx.x == 0) accumulators[blockIdx.x] = reducer.combine(accumulators[blockIdx.x], sum);
}

template <class R, std::size_t kMost>
__global__ void __launch_bounds__(kThreads)
    reduce_batch(const Batch<Run, kMost> __grid_constant__ batch, double* accumulators, R reducer) {
  double mine = reducer.identity();
  for_each_range(batch, [&](const Run& run, std::int64_t first, std::int64_t last) {
    with_compute(run.array.dtype, [&](auto number) {
      using T = decltype(number);
      for_each_element(
          run.packed, first, last,
          [&](std::int64_t i) {
            T values[kPack];
            load_pack<T, Among::floating>(run.array.data, run.array.dtype, i, values);
            for (int k = 0; k < kPack; ++k) mine = reducer.combine(mine, reducer.map(values[k]));
          },
          [&](std::int64_t i) {
            mine = reducer.combine(mine,
                                   reducer.map(load<T, Among::floating>(run.array.data, run.array.dtype, i)));
          });
    });
  });
  add_block(accumulators, mine, reducer);
}

template <class R>
__global__ void __launch_bounds__(kThreads)
    reduce_strided(Array array, Space<1> space, double* accumulators, R reducer) {
  double mine = reducer.identity();
  with_compute(array.dtype, [&](auto number) {
    using T = decltype(number);
    for (std::int64_t i = first_index(); i < space.total(); i += grid_size())
      mine = reducer.combine(mine,
                             reducer.map(load<T, Among::floating>(array.data, array.dtype, space.offset(i))));
  });
  add_block(accumulators, mine, reducer);
}

template <class R>
__global__ void __launch_bounds__(kThreads)
    finish_norm(const double* accumulators, Array total, R reducer, LastStep last) {
  double mine = reducer.identity();
  for (std::int64_t i = threadIdx.x; i < kMostBlocks; i += blockDim.x)
    mine = reducer.combine(mine, accumulators[i]);
  Shared<double> scratch(kThreads / kWarp);
  const double sum = reduce_block(
      mine, [&](double a, double b) { return reducer.combine(a, b); }, scratch);
  if (threadIdx.x == 0) store<double, Among::floating>(total.data, total.dtype, 0, last(sum, 1));
}

constexpr std::size_t kScratchBytes = sizeof(double) * (kThreads / kWarp);

/// batch(kernel arguments) for tensors that are one run, strided(array, space, blocks) for all other tensors.
template <class OfBatch, class OfStrided>
void over_all(std::span<const View> tensors, const OfBatch& of_batch, const OfStrided& of_strided) {
  const auto make = [&](const View& view) -> std::optional<Run> {
    const Space<1> space = space_in_memory_order(view);
    const std::optional<Run> run = run_of(view, space);
    if (!run) of_strided(Array{view.data, view.dtype}, space);
    return run;
  };
  in_batches<Run>(tensors, make, of_batch);
}

template <class Rule>
void change_all(Device device, std::span<const View> tensors, const Rule& rule) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  over_all(
      tensors,
      [&]<std::size_t kMost>(const Batch<Run, kMost>& batch) {
        mezzo::cuda::launch(change_batch<Rule, kMost>, dim3(batch.blocks()), dim3(kThreads), 0, stream, batch,
                            rule);
      },
      [&](const Array& array, const Space<1>& space) {
        start(device, space.total(), change_strided<Rule>, array, space, rule);
      });
}

template <class R>
void reduce_all(Device device, std::span<const View> tensors, double* accumulators, const R& reducer) {
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  mezzo::cuda::launch(clear_accumulators<R>, dim3(kMostBlocks / kThreads), dim3(kThreads), 0, stream,
                      accumulators, reducer);
  over_all(
      tensors,
      [&]<std::size_t kMost>(const Batch<Run, kMost>& batch) {
        mezzo::cuda::launch(reduce_batch<R, kMost>, dim3(batch.blocks()), dim3(kThreads), kScratchBytes,
                            stream, batch, accumulators, reducer);
      },
      [&](const Array& array, const Space<1>& space) {
        const Grid grid = grid_for(space.total());
        mezzo::cuda::launch(reduce_strided<R>, dim3(grid.blocks), dim3(kThreads), kScratchBytes, stream,
                            array, space, accumulators, reducer);
      });
}

}  // namespace

void total_norm(Device device, std::span<const View> tensors, double p, const View& total) {
  const Scratch memory(device, kMostBlocks * static_cast<std::int64_t>(sizeof(double)));
  auto* const accumulators = static_cast<double*>(memory.data());
  with_norm(p, [&](const auto& reducer, const LastStep& last) {
    reduce_all(device, tensors, accumulators, reducer);
    mezzo::cuda::launch(finish_norm<std::remove_cvref_t<decltype(reducer)>>, dim3(1), dim3(kThreads),
                        kScratchBytes, mezzo::cuda::current_stream(device), accumulators,
                        Array{total.data, total.dtype}, reducer, last);
  });
}

void scale_to_norm(Device device, std::span<const View> tensors, double max_norm, const View& total) {
  change_all(device, tensors, ScaleToNorm{NormFactor{total.data, total.dtype == DType::f64, max_norm}});
}

void limit_values(Device device, std::span<const View> tensors, double limit) {
  change_all(device, tensors, LimitValues{limit});
}

}  // namespace mezzo::kernels::cuda
