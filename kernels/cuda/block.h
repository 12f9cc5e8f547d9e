// Reductions inside a block: shuffles in each warp, then shared memory between warps. The order depends on
// the number of threads only.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/shared.h"

namespace mezzo::kernels::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffU;

/// A value of another lane, as `shuffle` fetches each of its words; any trivially copyable type of whole
/// words.
template <class A, class Shuffle>
__device__ MEZZO_ALWAYS_INLINE A shuffle_words(const A& value, const Shuffle& shuffle) {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) % 4 == 0);
  constexpr int kWords = sizeof(A) / 4;
  unsigned words[kWords];
  memcpy(words, &value, sizeof(A));
  for (int i = 0; i < kWords; ++i) words[i] = shuffle(words[i]);
  A result;
  memcpy(&result, words, sizeof(A));
  return result;
}
/// `value` of the lane `distance` above.
template <class A>
__device__ MEZZO_ALWAYS_INLINE A shuffle_down(const A& value, unsigned distance) {
  return shuffle_words(value, [=](unsigned word) { return __shfl_down_sync(kWholeWarp, word, distance); });
}
/// `value` of the lane `distance` below; in the first `distance` lanes the value of some lane.
template <class A>
__device__ MEZZO_ALWAYS_INLINE A shuffle_up(const A& value, unsigned distance) {
  const auto source = static_cast<int>((threadIdx.x - distance) % kWarp);
  return shuffle_words(value, [=](unsigned word) { return __shfl_sync(kWholeWarp, word, source); });
}

/// `value` of lane 0.
template <class A>
__device__ MEZZO_ALWAYS_INLINE A of_first_lane(const A& value) {
  return shuffle_words(value, [](unsigned word) { return __shfl_sync(kWholeWarp, word, 0); });
}

/// `value` of lane 31.
template <class A>
__device__ MEZZO_ALWAYS_INLINE A of_last_lane(const A& value) {
  return shuffle_words(value, [](unsigned word) { return __shfl_sync(kWholeWarp, word, kWarp - 1); });
}

/// `value` of the lane whose number differs in the bits of `mask`.
template <class A>
__device__ MEZZO_ALWAYS_INLINE A shuffle_xor(const A& value, unsigned mask) {
  return shuffle_words(
      value, [=](unsigned word) { return __shfl_xor_sync(kWholeWarp, word, static_cast<int>(mask)); });
}

/// In every lane, with the same bits: combine over the warp, where combine(a, b) is combine(b, a). All 32
/// lanes take part.
template <class A, class Combine>
__device__ MEZZO_ALWAYS_INLINE A reduce_warp_everywhere(A value, const Combine& combine) {
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

/// In lane 0: combine over the warp. All 32 lanes take part.
template <class A, class Combine>
__device__ MEZZO_ALWAYS_INLINE A reduce_warp(A value, const Combine& combine) {
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffle_down(value, distance));
  }
  return value;
}
/// In every lane: combine over the first `count` lanes (at least one); values of other lanes do not matter.
template <class A, class Combine>
__device__ MEZZO_ALWAYS_INLINE A reduce_lanes(A value, unsigned count, const Combine& combine) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    const A other = shuffle_down(value, distance);
    if (lane + distance < count) value = combine(value, other);
  }
  return of_first_lane(value);
}

/// combine over the values that the warps of a block have left in `scratch`, in every thread.
template <class A, class Combine>
__device__ MEZZO_ALWAYS_INLINE A fold_warps(const Shared<A>& scratch, unsigned warps,
                                            const Combine& combine) {
  if (warps > kThreads / kWarp) {
    const unsigned lane = threadIdx.x % kWarp;
    return reduce_lanes(scratch.get(lane < warps ? lane : 0), warps, combine);
  }
  // Every thread folds the few warps, in order: no second round of shuffles and no broadcast.
  A total = scratch.get(0);
  for (unsigned w = 1; w < warps; ++w) total = combine(total, scratch.get(w));
  return total;
}

/// In every thread: combine over the block, of a multiple of 32 threads (at most 1024). `scratch` holds one A
/// per warp; the block may use it again after this call.
template <class A, class Combine>
__device__ MEZZO_ALWAYS_INLINE A reduce_block(A value, const Combine& combine, Shared<A>& scratch) {
  const unsigned warps = blockDim.x / kWarp;
  value = reduce_warp(value, combine);
  if (threadIdx.x % kWarp == 0) scratch.set(threadIdx.x / kWarp, value);
  __syncthreads();
  const A total = fold_warps(scratch, warps, combine);
  __syncthreads();
  return total;
}

/// Bytes of `scratch` for reduce_block.
template <class A>
[[nodiscard]] constexpr std::size_t reduce_scratch_bytes() {
  return sizeof(A) * (1024 / kWarp);
}

}  // namespace mezzo::kernels::cuda
