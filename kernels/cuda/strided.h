// Where the elements of strided arrays lie, for kernels: an index in row-major order over common sizes
// becomes one offset per array. Small enough to travel as kernel arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mezzo/core/dims.h"
#include "mezzo/core/host_device.h"
#include "mezzo/core/layout.h"
#include "mezzo/kernels/math/quotient.h"
#include "mezzo/kernels/view.h"

namespace mezzo::kernels::cuda {

/// An array as a kernel sees it: memory and dtype.
struct Array {
  void* data = nullptr;
  DType dtype = DType::f32;
};
[[nodiscard]] inline Array array_of(const View& view) { return {view.data, view.dtype}; }

/// Sizes of at most kMaxDims dims and the strides of N arrays over them, in elements; the last dim runs
/// fastest. Dims that lie one after the other in all arrays are one.
template <std::size_t N>
class Space {
 public:
  Space() = default;
  Space(Shape shape, std::array<Dims, N> strides) {
    layout::collapse(shape, strides);
    rank_ = static_cast<int>(shape.size());
    for (int d = 0; d < rank_; ++d) {
      const auto at = static_cast<std::size_t>(d);
      sizes_[d] = shape[at];
      total_ *= shape[at];
      for (std::size_t k = 0; k < N; ++k) strides_[k][d] = strides[k][at];
    }
    narrow_ = total_ <= INT32_MAX;
    for (int d = 0; narrow_ && total_ > 0 && d < rank_; ++d) divisors_[d] = FastDivisor(sizes_[d]);
  }

  [[nodiscard]] MEZZO_HD std::int64_t total() const { return total_; }
  /// Whether array k is one run of elements: index and offset are the same.
  [[nodiscard]] bool linear(std::size_t k) const {
    return total_ <= 1 || (rank_ == 1 && strides_[k][0] == 1);
  }
  /// Whether array k is one element, repeated.
  [[nodiscard]] bool constant(std::size_t k) const {
    return total_ <= 1 || (rank_ == 1 && strides_[k][0] == 0);
  }

  /// Offsets of element `index` in all arrays.
  MEZZO_HD MEZZO_ALWAYS_INLINE void offsets(std::int64_t index, std::int64_t (&offset)[N]) const {
    for (std::size_t k = 0; k < N; ++k) offset[k] = 0;
    if (narrow_)
      walk(static_cast<std::int32_t>(index), offset);
    else
      walk(static_cast<std::uint64_t>(index), offset);
  }
  /// Offset of element `index` where there is one array.
  [[nodiscard]] MEZZO_HD MEZZO_ALWAYS_INLINE std::int64_t offset(std::int64_t index) const {
    static_assert(N == 1);
    std::int64_t one[1];
    offsets(index, one);
    return one[0];
  }

 private:
  template <class Index>
  MEZZO_HD MEZZO_ALWAYS_INLINE void walk(Index rest, std::int64_t (&offset)[N]) const {
    for (int d = rank_ - 1; d > 0; --d) {
      Index next;
      if constexpr (sizeof(Index) == sizeof(std::int32_t))
        next = divisors_[d](rest);
      else
        next = rest / static_cast<Index>(sizes_[d]);  // a hundred instructions on a GPU
      const auto at = static_cast<std::int64_t>(rest - next * static_cast<Index>(sizes_[d]));
      for (std::size_t k = 0; k < N; ++k) offset[k] += at * strides_[k][d];
      rest = next;
    }
    if (rank_ > 0) {
      for (std::size_t k = 0; k < N; ++k) offset[k] += static_cast<std::int64_t>(rest) * strides_[k][0];
    }
  }

  std::int64_t sizes_[kMaxDims] = {};
  FastDivisor divisors_[kMaxDims];  // by the sizes, where all indices have 31 bits
  std::int64_t strides_[N][kMaxDims] = {};
  std::int64_t total_ = 1;
  int rank_ = 0;
  bool narrow_ = true;
};

}  // namespace mezzo::kernels::cuda
