// The loops of grid_sample on the CPU, over a block of places: where their corners lie is found once and then
// used for all channels. Included by cpu_grid_sample.cpp only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/vector_loop.h"
#include "mezzo/kernels/resample/grid_sample.h"

namespace mezzo::kernels::cpu::detail {

/// Places of a block: with eight corners their offsets and weights are 48 KiB.
inline constexpr std::int64_t kGridBlock = 512;

/// Corners of the places of a block. kCorners is 1 for nearest. T is the compute type, Offset an integer that
/// holds all offsets in one sample of x.
template <class T, class Offset, int kAxes, int kCorners>
struct CornerBlock {
  static constexpr bool kWide = sizeof(Offset) > 4;  ///< for samples of x beyond 8 GiB only
  Offset offset[kCorners][kGridBlock];               ///< in x; -1 outside
  T weight[kCorners][kGridBlock];
  T upper[kAxes][kGridBlock];  ///< weights of the upper places, and their derivatives by the coordinates
  T slope[kAxes][kGridBlock];
};

/// Sizes and strides of x along the axes.
template <int kAxes>
struct Axes {
  std::int64_t sizes[kAxes], strides[kAxes];
  explicit Axes(const GridSampleShape& shape) {
    const auto all = shape.strides();
    for (int a = 0; a < kAxes; ++a) {
      sizes[a] = shape.sizes[static_cast<std::size_t>(a)];
      strides[a] = all[static_cast<std::size_t>(a)];
    }
  }
};

/// Lower places of the cells that `n` places lie in, for each axis.
template <int kAxes>
struct LowPlaces {
  std::int64_t at[kAxes][kGridBlock];
};

/// Cells of `n` places from their coordinates. kPadding is the rule's, so that the loop over places has no
/// branches and takes vector instructions.
template <class T, int kAxes, GridSampleMode kMode, GridPadding kPadding>
struct FindCells {
  static void run(T (*upper)[kGridBlock], T (*slope)[kGridBlock], LowPlaces<kAxes>* low, const T* grid,
                  std::int64_t n, Axes<kAxes> axes, bool align_corners) {
    const GridRule rule{kMode, kPadding, align_corners};
    for (int a = 0; a < kAxes; ++a) {
      const std::int64_t size = axes.sizes[a];
      for (std::int64_t p = 0; p < n; ++p) {
        const GridCell<T> cell = grid_cell(grid[p * kAxes + a], size, rule);
        low->at[a][p] = cell.low;
        upper[a][p] = cell.upper;
        slope[a][p] = cell.slope;
      }
    }
  }
};

/// Corners of `n` places from their cells.
template <class Block, class T, int kAxes, int kCorners>
struct FindCorners {
  static constexpr bool kRare = Block::kWide;
  static void run(Block* block, const LowPlaces<kAxes>* low, std::int64_t n, Axes<kAxes> axes) {
    for (int k = 0; k < kCorners; ++k) {
      for (std::int64_t p = 0; p < n; ++p) {
        GridCorners<T, kAxes> corners;
        for (int a = 0; a < kAxes; ++a) corners.cells[a] = {low->at[a][p], block->upper[a][p], T(0)};
        using Offset = std::remove_reference_t<decltype(block->offset[0][0])>;
        block->offset[k][p] = static_cast<Offset>(corners.offset(k, axes.sizes, axes.strides));
        block->weight[k][p] = corners.weight(k);
      }
    }
  }
};

/// Element `at` of x, or 0 for -1; element 0 is always there.
template <class T, class Offset>
MEZZO_ALWAYS_INLINE T value_at(const T* x, Offset at) {
  const T value = x[at < 0 ? 0 : at];
  return at < 0 ? T(0) : value;
}

/// The places of one channel, which are neighbours in the result. The compiler cannot see that `out` is not
/// what is gathered from.
template <class Block, class T, int kCorners>
struct SamplePlane {
  static constexpr bool kRare = Block::kWide;
  static void run(const Block* block, const T* x, T* out, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t p = 0; p < n; ++p) {
      T sum = block->weight[0][p] * value_at(x, block->offset[0][p]);
      for (int k = 1; k < kCorners; ++k) sum += block->weight[k][p] * value_at(x, block->offset[k][p]);
      out[p] = sum;
    }
  }
};
/// All channels of each place, where channels are neighbours. Outside stand `zeros`, one per channel.
template <class Block, class T, int kCorners>
struct SampleChannels {
  static constexpr bool kRare = Block::kWide;
  static void run(const Block* block, const T* x, const T* zeros, T* out, std::int64_t n,
                  std::int64_t channels) {
    for (std::int64_t p = 0; p < n; ++p) {
      const T* from[kCorners];
      T weight[kCorners];
      for (int k = 0; k < kCorners; ++k) {
        from[k] = block->offset[k][p] < 0 ? zeros : x + block->offset[k][p];
        weight[k] = block->weight[k][p];
      }
      T* const to = out + p * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        T sum = weight[0] * from[0][c];
        for (int k = 1; k < kCorners; ++k) sum += weight[k] * from[k][c];
        to[c] = sum;
      }
    }
  }
};

/// Adds the gradients of a plane's places to the gradient of x: one channel, whose places are neighbours.
template <class Block, class T, int kCorners>
struct AddPlaneToCorners {
  static constexpr bool kRare = Block::kWide;
  static void run(const Block* block, const T* grad, T* out, std::int64_t n) {
    for (std::int64_t p = 0; p < n; ++p) {
      for (int k = 0; k < kCorners; ++k) {
        if (block->offset[k][p] >= 0) out[block->offset[k][p]] += block->weight[k][p] * grad[p];
      }
    }
  }
};

/// AddPlaneToCorners for `channels` channels that are neighbours, `step` from a place to the next in `grad`.
template <class Block, class T, int kCorners>
struct AddToCorners {
  static constexpr bool kRare = Block::kWide;
  static void run(const Block* block, const T* grad, T* out, std::int64_t n, std::int64_t step,
                  std::int64_t channels) {
    for (std::int64_t p = 0; p < n; ++p) {
      const T* const from = grad + p * step;
      for (int k = 0; k < kCorners; ++k) {
        if (block->offset[k][p] < 0) continue;
        T* const to = out + block->offset[k][p];
        const T weight = block->weight[k][p];
        for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
      }
    }
  }
};

/// Adds what a channel contributes to the derivatives by the positions along each axis; `x_step` and `step`
/// as above, 1 for row-major.
template <class Block, class T, int kAxes>
struct AddSlopes {
  static constexpr bool kRare = Block::kWide;
  static constexpr int kCorners = 1 << kAxes;
  static void run(const Block* block, const T* grad, const T* x, T (*sums)[kGridBlock], std::int64_t n,
                  std::int64_t step) {
    for (std::int64_t p = 0; p < n; ++p) {
      T values[kCorners], upper[kAxes], slopes[kAxes];
      for (int k = 0; k < kCorners; ++k) values[k] = value_at(x, block->offset[k][p]);
      for (int a = 0; a < kAxes; ++a) upper[a] = block->upper[a][p];
      corner_slopes<T, kAxes>(values, upper, slopes);
      for (int a = 0; a < kAxes; ++a) sums[a][p] += grad[p * step] * slopes[a];
    }
  }
};

}  // namespace mezzo::kernels::cpu::detail
