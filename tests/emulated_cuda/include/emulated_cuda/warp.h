// Functions of a warp: shuffles, votes, its barrier. All lanes that the mask names have to come, with the
// same function and mask; a lane that has returned, does not exist or waits elsewhere, and a read from a lane
// that the mask does not name, abort the process with a message. (A GPU leaves out lanes that have returned;
// a kernel that relies on that is refused here.)
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "emulated_cuda/types.h"

#pragma GCC visibility push(default)

namespace emulated_cuda::detail {

enum class WarpOp : unsigned char { sync, shuffle, shuffle_xor, shuffle_down, ballot, any, all, together };

/// Meets the lanes of `mask`. Returns one bit per lane that came with a true predicate.
unsigned vote(WarpOp op, unsigned mask, bool predicate, const char* file, int line);
/// Meets the lanes of `mask`. Returns the `bits` of the lane that `op`, `operand` and `width` name.
unsigned long long exchange(WarpOp op, unsigned mask, unsigned long long bits, unsigned operand,
                            unsigned width, const char* file, int line);
/// Meets all 32 lanes. The last one to come calls `work` with what they brought, while the others wait.
using WarpWork = void (*)(const std::array<void*, 32>& of_lanes);
void together(WarpWork work, void* own, const char* file, int line);

template <class T>
inline constexpr bool can_shuffle = false;
template <>
inline constexpr bool can_shuffle<int> = true;
template <>
inline constexpr bool can_shuffle<unsigned> = true;
template <>
inline constexpr bool can_shuffle<long> = true;
template <>
inline constexpr bool can_shuffle<unsigned long> = true;
template <>
inline constexpr bool can_shuffle<long long> = true;
template <>
inline constexpr bool can_shuffle<unsigned long long> = true;
template <>
inline constexpr bool can_shuffle<float> = true;
template <>
inline constexpr bool can_shuffle<double> = true;

template <class T>
T exchange_value(WarpOp op, unsigned mask, T value, unsigned operand, int width, const char* file, int line) {
  static_assert(can_shuffle<T>, "CUDA shuffles int, long, long long, float and double");
  // Not by memcpy: under the address sanitizer each local variable whose address is taken costs time.
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const unsigned long long bits =
      exchange(op, mask, __builtin_bit_cast(Bits, value), operand, static_cast<unsigned>(width), file, line);
  return __builtin_bit_cast(T, static_cast<Bits>(bits));
}

}  // namespace emulated_cuda::detail

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  return emulated_cuda::detail::exchange_value(emulated_cuda::detail::WarpOp::shuffle, mask, value,
                                               static_cast<unsigned>(lane), width, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  return emulated_cuda::detail::exchange_value(emulated_cuda::detail::WarpOp::shuffle_xor, mask, value,
                                               static_cast<unsigned>(lanes), width, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulated_cuda::detail::exchange_value(emulated_cuda::detail::WarpOp::shuffle_down, mask, value,
                                               distance, width, file, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffU, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  emulated_cuda::detail::vote(emulated_cuda::detail::WarpOp::sync, mask, false, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return emulated_cuda::detail::vote(emulated_cuda::detail::WarpOp::ballot, mask, predicate != 0, file, line);
}
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using emulated_cuda::detail::WarpOp;
  return emulated_cuda::detail::vote(WarpOp::any, mask, predicate != 0, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using emulated_cuda::detail::WarpOp;
  return emulated_cuda::detail::vote(WarpOp::all, mask, predicate != 0, file, line) == mask ? 1 : 0;
}

#pragma GCC visibility pop
