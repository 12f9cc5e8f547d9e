// Float8 quantisation on a CUDA device, with the codes and scales of the CPU. A group of elements shares a
// scale: the tensor, or a row. A short group is one block's, which reads it twice in one launch; of a long
// one many blocks find the largest magnitude (an integer, so their order does not show), and a second launch
// casts, where every thread works the scale out of it. Nothing is read by the host.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "mezzo/core/cuda/check.h"
#include "mezzo/core/cuda/launch.h"
#include "mezzo/kernels/cuda/access.h"
#include "mezzo/kernels/cuda/block.h"
#include "mezzo/kernels/cuda/grid.h"
#include "mezzo/kernels/cuda/scratch.h"
#include "mezzo/kernels/quantize/quantize.h"
#include "mezzo/kernels/quantize/quantize_math.h"

namespace mezzo::kernels::cuda {

namespace {

/// Groups of `length` elements one behind the other, each in `parts` pieces for as many blocks.
struct Float8Groups {
  std::int64_t groups = 0, length = 0;
  unsigned parts = 1, threads = kWarp;
  bool packed = false;  ///< every group begins where packs of all its arrays do

  Float8Groups(std::int64_t groups_, std::int64_t length_, std::initializer_list<Array> arrays)
      : groups(groups_), length(length_) {
    constexpr std::int64_t kPacksPerThread = 8;
    const std::int64_t packs = (length + kPack - 1) / kPack;
    threads = grid_for(std::max<std::int64_t>(1, packs)).threads;
    const std::int64_t useful = packs / (kPacksPerThread * threads);
    const std::int64_t most = std::max<std::int64_t>(1, kMostBlocks / std::max<std::int64_t>(1, groups));
    parts = static_cast<unsigned>(std::clamp<std::int64_t>(useful, 1, most));
    packed = groups == 1 || length % kPack == 0;
    for (const Array& array : arrays) packed = packed && takes_packs(array);
  }
  [[nodiscard]] dim3 blocks() const {
    return {parts * static_cast<unsigned>(std::min(groups, std::max<std::int64_t>(1, kMostBlocks / parts)))};
  }
  [[nodiscard]] __device__ std::int64_t first_group() const { return blockIdx.x / parts; }
  [[nodiscard]] __device__ std::int64_t step() const { return gridDim.x / parts; }

  /// Calls f.pack(i) for packs of four and f.one(i) for single elements, i counted from the group's
  /// beginning: together all elements of the block's part.
  template <class F>
  __device__ MEZZO_ALWAYS_INLINE void for_each(const F& f) const {
    const std::int64_t first = std::int64_t{blockIdx.x % parts} * blockDim.x + threadIdx.x;
    const std::int64_t step = std::int64_t{parts} * blockDim.x;
    const std::int64_t packs = packed ? length / kPack : 0;
    for (std::int64_t i = first; i < packs; i += step) f.pack(i * kPack);
    for (std::int64_t i = packs * kPack + first; i < length; i += step) f.one(i);
  }
};

__device__ MEZZO_ALWAYS_INLINE float float8_rounded(float x, DType rounded) {
  if (rounded == DType::bf16) return convert<float>(convert<BFloat16>(x));
  if (rounded == DType::f16) return convert<float>(convert<Half>(x));
  return x;
}

/// Two codes in one word, that of `first` in the lower byte.
template <class F8>
__device__ MEZZO_ALWAYS_INLINE std::uint32_t float8_pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  // The instruction takes infinity for the largest value, and so what e5m2 rounds to infinity.
  constexpr bool kE5M2 = F8::Layout::kHasInfinity;
  std::uint16_t pair;
  if constexpr (kE5M2)
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kOverflow = kE5M2 ? 0x47700000U : kInfinity;  // 61440, halfway to 2^16
  std::uint32_t codes = pair;
  const auto mend = [&](float x, int shift) {
    const std::uint32_t magnitude = magnitude_bits(x);
    if (magnitude < kOverflow) return;
    const std::uint32_t code = !kE5M2 ? 0x7fU : magnitude > kInfinity ? 0x7eU : 0x7cU;
    const std::uint32_t sign = mezzo::detail::bit_cast<std::uint32_t>(x) >> 24 & 0x80U;
    codes = (codes & ~(0xffU << shift)) | (code | sign) << shift;
  };
  mend(first, 0);
  mend(second, 8);
  return codes;
#else
  return F8(first).bits | std::uint32_t{F8(second).bits} << 8;
#endif
}

/// The largest magnitude among the elements that a thread meets.
struct Float8Largest {
  const void* x;
  DType dtype;
  std::int64_t first;  ///< of the group
  std::uint32_t* largest;

  __device__ MEZZO_ALWAYS_INLINE void pack(std::int64_t i) const {
    float values[kPack];
    load_pack<float, Among::floating>(x, dtype, (first + i) / kPack, values);
    for (int k = 0; k < kPack; ++k) look(values[k]);
  }
  __device__ MEZZO_ALWAYS_INLINE void one(std::int64_t i) const {
    look(load<float, Among::floating>(x, dtype, first + i));
  }

 private:
  __device__ MEZZO_ALWAYS_INLINE void look(float value) const {
    const std::uint32_t magnitude = magnitude_bits(value);
    *largest = magnitude > *largest ? magnitude : *largest;
  }
};

/// Elements rounded, scaled and cast.
template <class F8>
struct Float8Cast {
  const void* x;
  DType dtype, rounded;
  std::uint8_t* codes;
  std::int64_t first;
  float scale;

  __device__ MEZZO_ALWAYS_INLINE void pack(std::int64_t i) const {
    const std::int64_t at = (first + i) / kPack;
    float values[kPack];
    load_pack<float, Among::floating>(x, dtype, at, values);
    for (int k = 0; k < kPack; ++k) values[k] = scaled(values[k]);
    const std::uint32_t low = float8_pair<F8>(values[0], values[1]),
                        high = float8_pair<F8>(values[2], values[3]);
    reinterpret_cast<RawWords<1>*>(codes)[at] = {{low | high << 16}};
  }
  __device__ MEZZO_ALWAYS_INLINE void one(std::int64_t i) const {
    const float value = scaled(load<float, Among::floating>(x, dtype, first + i));
    codes[first + i] = static_cast<std::uint8_t>(float8_pair<F8>(value, 0.0F));
  }

 private:
  [[nodiscard]] __device__ MEZZO_ALWAYS_INLINE float scaled(float value) const {
    return float8_rounded(value, rounded) * scale;
  }
};

/// In every thread: the largest magnitude among the block's elements of a group.
__device__ MEZZO_ALWAYS_INLINE std::uint32_t float8_largest(const Quantization& q, const Float8Groups& groups,
                                                            std::int64_t group) {
  std::uint32_t largest = 0;
  groups.for_each(Float8Largest{q.x, q.dtype, group * groups.length, &largest});
  Shared<std::uint32_t> scratch(1024 / kWarp);
  return reduce_block(
      largest, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }, scratch);
}

/// Casts the block's elements of a group; its first thread writes the scale.
__device__ MEZZO_ALWAYS_INLINE void float8_cast(const Quantization& q, const Float8Groups& groups,
                                                std::int64_t group, std::uint32_t largest) {
  // Rounding keeps the order, so that of the rounded elements is the largest one rounded.
  const float amax = float8_rounded(mezzo::detail::bit_cast<float>(largest), q.rounded);
  const Float8Scale scale = float8_scale(amax, largest_of_float8(q.format), q.power_of_two);
  if (blockIdx.x % groups.parts == 0 && threadIdx.x == 0) {
    q.scale[group] = scale.scale;
    q.inverse[group] = scale.inverse;
  }
  auto* const codes = static_cast<std::uint8_t*>(q.codes);
  const std::int64_t first = group * groups.length;
  if (q.format == DType::f8_e4m3)
    groups.for_each(Float8Cast<Float8E4M3>{q.x, q.dtype, q.rounded, codes, first, scale.scale});
  else
    groups.for_each(Float8Cast<Float8E5M2>{q.x, q.dtype, q.rounded, codes, first, scale.scale});
}

/// Whole groups, a block each.
__global__ void __launch_bounds__(kThreads) quantize_groups(Quantization q, Float8Groups groups) {
  for (std::int64_t group = groups.first_group(); group < groups.groups; group += groups.step())
    float8_cast(q, groups, group, float8_largest(q, groups, group));
}

/// largest[group] of zeros becomes the largest magnitude.
__global__ void __launch_bounds__(kThreads)
    find_largest(Quantization q, Float8Groups groups, std::uint32_t* largest) {
  for (std::int64_t group = groups.first_group(); group < groups.groups; group += groups.step()) {
    const std::uint32_t mine = float8_largest(q, groups, group);
    if (threadIdx.x == 0) atomicMax(largest + group, mine);
  }
}

__global__ void __launch_bounds__(kThreads)
    cast_groups(Quantization q, Float8Groups groups, const std::uint32_t* largest) {
  for (std::int64_t group = groups.first_group(); group < groups.groups; group += groups.step())
    float8_cast(q, groups, group, largest[group]);
}

}  // namespace

void quantize_float8(Device device, const Quantization& args) {
  const std::int64_t rows = args.per_row ? args.rows : 1;
  const Float8Groups groups(rows, args.per_row ? args.columns : args.rows * args.columns,
                            {{const_cast<void*>(args.x), args.dtype}, {args.codes, args.format}});
  if (rows == 0) return;
  const mezzo::cuda::Stream& stream = mezzo::cuda::current_stream(device);
  const std::size_t shared = reduce_scratch_bytes<std::uint32_t>();
  if (groups.parts == 1) {
    return mezzo::cuda::launch(quantize_groups, groups.blocks(), dim3(groups.threads), shared, stream, args,
                               groups);
  }
  const std::int64_t bytes = rows * std::int64_t{sizeof(std::uint32_t)};
  const Scratch memory(device, bytes);
  auto* const largest = static_cast<std::uint32_t*>(memory.data());
  mezzo::cuda::check(
      cudaMemsetAsync(largest, 0, static_cast<std::size_t>(bytes), mezzo::cuda::native(stream)),
      "cudaMemsetAsync");
  mezzo::cuda::launch(find_largest, groups.blocks(), dim3(groups.threads), shared, stream, args, groups,
                      largest);
  mezzo::cuda::launch(cast_groups, groups.blocks(), dim3(groups.threads), 0, stream, args, groups, largest);
}

}  // namespace mezzo::kernels::cuda
