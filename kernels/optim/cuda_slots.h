// A parameter as the kernels of an update get it, and its values where they are neither f32 nor rounded to
// nearest.
#pragma once

#include "mezzo/kernels/cuda/strided.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/kernels/optim/narrow_parameter.h"
#include "mezzo/kernels/optim/optimizer.h"

namespace mezzo::kernels::cuda::update_detail {

// Arrays of a parameter by position; three states from kState on, three copies from kCopy on. A split
// master's remainder is where else the third copy is, the parameter of an f32 master.
constexpr int kValue = 0, kGradient = 1, kState = 2, kCopy = 5, kRemainder = 7, kArrays = 8;

/// A parameter's arrays, absent ones without data, and its numbers.
struct SlotBase {
  Array arrays[kArrays];
  std::int64_t* step = nullptr;
  double* carried = nullptr;
  std::int64_t first_element = 0;
  std::uint32_t number = 0;
  bool rounds_at_random = false;
  bool is_split = false;

  /// Whether the parameter has 16 bits and keeps more than its rounded value of the update.
  [[nodiscard]] MEZZO_HD bool is_narrow() const { return rounds_at_random || is_split; }
};
/// A parameter whose arrays are one run each.
struct UpdateSlot : SlotBase {
  std::int64_t elements = 0;
  bool packed = false;  ///< aligned to packs, and the states are of the compute type
};
/// One with any strides.
struct StridedUpdateSlot : SlotBase {
  Space<kArrays> space;
};

/// A parameter whose states are moments in 8 bits; its codes are one run each.
struct PackedSlot : StridedUpdateSlot {
  float* scales[kMaxBuffers] = {};
  std::uint32_t nonnegative = 0;
  std::int64_t elements = 0;
};

/// The values of any parameter in f32, narrow or not (SlotBase::is_narrow).
class NarrowValues {
 public:
  __device__ explicit NarrowValues(const SlotBase& slot) : slot_(slot) {}

  /// Elements 4 i to 4 i + 3.
  __device__ MEZZO_ALWAYS_INLINE void load_pack(std::int64_t i, float* values) const {
    const Array& value = slot_.arrays[kValue];
    if (!slot_.is_split) return cuda::load_pack<float, Among::floating>(value.data, value.dtype, i, values);
    const Words parameters = static_cast<const Words*>(value.data)[i];
    const Words remainders = static_cast<const Words*>(slot_.arrays[kRemainder].data)[i];
    for (int k = 0; k < kPack; ++k) {
      values[k] = SplitMaster{static_cast<std::uint16_t>(parameters.words[k / 2] >> 16 * (k % 2)),
                              static_cast<std::int16_t>(remainders.words[k / 2] >> 16 * (k % 2))}
                      .joined();
    }
  }
  __device__ MEZZO_ALWAYS_INLINE void store_pack(std::int64_t i, float* values) const {
    const Array& value = slot_.arrays[kValue];
    if (!slot_.is_split) {
      if (slot_.rounds_at_random) round(values, kPack, kPack * i);
      return cuda::store_pack<float, Among::floating>(value.data, value.dtype, i, values);
    }
    Words parameters{}, remainders{};
    for (int k = 0; k < kPack; ++k) {
      const SplitMaster split = SplitMaster::of(values[k]);
      parameters.words[k / 2] |= static_cast<std::uint32_t>(split.parameter) << 16 * (k % 2);
      remainders.words[k / 2] |= (static_cast<std::uint32_t>(split.remainder) & 0xffffU) << 16 * (k % 2);
    }
    static_cast<Words*>(value.data)[i] = parameters;
    static_cast<Words*>(slot_.arrays[kRemainder].data)[i] = remainders;
  }
  /// Element i, which is at these places.
  __device__ MEZZO_ALWAYS_INLINE float load(std::int64_t value_at, std::int64_t remainder_at) const {
    const Array& value = slot_.arrays[kValue];
    if (!slot_.is_split) return cuda::load<float, Among::floating>(value.data, value.dtype, value_at);
    return SplitMaster{static_cast<const std::uint16_t*>(value.data)[value_at],
                       static_cast<const std::int16_t*>(slot_.arrays[kRemainder].data)[remainder_at]}
        .joined();
  }
  __device__ MEZZO_ALWAYS_INLINE void store(std::int64_t i, std::int64_t value_at, std::int64_t remainder_at,
                                            float& value) const {
    const Array& array = slot_.arrays[kValue];
    if (!slot_.is_split) {
      if (slot_.rounds_at_random) round(&value, 1, i);
      return cuda::store<float, Among::floating>(array.data, array.dtype, value_at, value);
    }
    const SplitMaster split = SplitMaster::of(value);
    static_cast<std::uint16_t*>(array.data)[value_at] = split.parameter;
    static_cast<std::int16_t*>(slot_.arrays[kRemainder].data)[remainder_at] = split.remainder;
  }

 private:
  using Words = RawWords<kPack / 2>;

  /// Up to kPack elements from `element` on: they lie in at most two blocks of random words.
  __device__ MEZZO_ALWAYS_INLINE void round(float* values, int count, std::int64_t element) const {
    const RoundingBits bits{slot_.number, *slot_.step};
    const std::int64_t first = slot_.first_element + element, last = first + count - 1;
    const PhiloxBlock block = bits.block(first);
    const bool is_one = first / RoundingBits::kBlock == last / RoundingBits::kBlock;
    const PhiloxBlock next = is_one ? block : bits.block(last);
    for (int k = 0; k < count; ++k) {
      const bool is_first = (first + k) / RoundingBits::kBlock == first / RoundingBits::kBlock;
      // A choice between the blocks themselves would take their addresses, and put them into memory.
      const std::uint32_t here = RoundingBits::of(block, first + k),
                          there = RoundingBits::of(next, first + k);
      const std::uint32_t random = is_first ? here : there;
      values[k] = slot_.arrays[kValue].dtype == DType::bf16
                      ? static_cast<float>(rounded_at_random<BFloat16>(values[k], random))
                      : static_cast<float>(rounded_at_random<Half>(values[k], random));
    }
  }

  const SlotBase& slot_;
};

}  // namespace mezzo::kernels::cuda::update_detail
