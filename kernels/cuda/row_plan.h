// How a CUDA kernel goes over rows, chosen from sizes alone: a thread per row, a row in the registers of a
// warp or of a block, or a block that walks over a row several times, by chunks in registers or by elements.
// No device code, so that tests of every boundary can ask it.
#pragma once

#include <cstdint>

namespace mezzo::kernels::cuda {

/// Neighbours that a thread loads at once.
inline constexpr int kRowPack = 4;
/// Packs of each of two inputs that a thread keeps: 32 of the 64 registers that it has in a block of 1024.
inline constexpr int kRowSlots = 4;
inline constexpr int kMostRegisterInputs = 2;
inline constexpr unsigned kMostRowThreads = 1024;

inline constexpr unsigned kRowsOfABlock = 4;  ///< where a warp has a row

enum class RowWay {
  across,     ///< a thread per row, because neighbouring rows are neighbours in memory
  registers,  ///< a warp or a block per row of whole packs, which is read from memory once
  chunks,     ///< a block per row that is a run, which goes through registers a chunk at a time
  streamed,   ///< a block per row, an element of a thread at a time
};

struct RowSizes {
  std::int64_t rows, length;
  int inputs;            ///< arrays that are read
  bool across;           ///< neighbouring rows are closer in memory than neighbours of a row
  bool narrow;           ///< computed in f32 from f16, bf16 or f32
  bool packed, shifted;  ///< see RowArrays
};

struct RowPlan {
  RowWay way;
  int slots;               ///< packs per thread: 1 or kRowSlots, a kernel each (registers only)
  unsigned threads, rows;  ///< threads of a row, and rows of a block (registers only)
};

/// Whether a thread has a row of its own. Fewer rows than a warp's lanes would leave lanes idle.
[[nodiscard]] constexpr bool thread_per_row(bool across, std::int64_t rows) { return across && rows >= 32; }

/// The longest row that registers hold, of one array or of two.
inline constexpr std::int64_t kLongestRegisterRow = std::int64_t{kRowSlots} * kRowPack * kMostRowThreads;

[[nodiscard]] constexpr RowPlan plan_rows(const RowSizes& sizes) {
  constexpr int kLanes = 32;
  if (thread_per_row(sizes.across, sizes.rows)) return {RowWay::across, 0, 0, 0};
  // A block per row: there are at most 2^31 - 1.
  if (!sizes.narrow || sizes.inputs > kMostRegisterInputs || sizes.rows > INT32_MAX)
    return {RowWay::streamed, 0, 0, 0};
  if (!sizes.packed || sizes.length > kLongestRegisterRow) {
    // A block's registers are too many for a row that a warp's would hold.
    const bool is_short = sizes.length <= kRowSlots * kRowPack * kLanes;
    return {sizes.shifted && !is_short ? RowWay::chunks : RowWay::streamed, 0, 0, 0};
  }
  const std::int64_t packs = (sizes.length + kRowPack - 1) / kRowPack;
  const int slots = packs <= kLanes ? 1 : kRowSlots;
  const std::int64_t warps = (packs + slots * kLanes - 1) / (slots * kLanes);
  const auto threads = static_cast<unsigned>(warps < 1 ? 1 : warps) * kLanes;
  return {RowWay::registers, slots, threads, threads == kLanes ? kRowsOfABlock : 1};
}

}  // namespace mezzo::kernels::cuda
