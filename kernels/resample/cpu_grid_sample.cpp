// grid_sample on the CPU, of channels-last images. The result and the gradient of the grid are dealt with by
// blocks of places, the gradient of x by groups of channels, so that no two threads add to one element.
#include "mezzo/kernels/resample/grid_sample.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/vector_loop.h"

namespace mezzo::kernels::cpu {

namespace {

// --- the loops over a block of places: where their corners lie is found once and then used for all channels

/// Places of a block: with eight corners their offsets and weights are 48 KiB.
constexpr std::int64_t kGridBlock = 512;

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

/// All channels of each place. Outside stand `zeros`, one per channel.
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

/// Adds the gradients of `channels` channels to the gradient of x, `step` from a place to the next in `grad`.
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

/// Adds what a channel contributes to the derivatives by the positions along each axis; `step` as above.
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

// --- blocks and threads

/// Elements of a chunk where arrays are converted.
constexpr std::int64_t kConverted = std::int64_t{1} << 15;

/// A dense array to be written as T: itself, or memory from which finish() rounds.
template <class T>
class Narrowed {
 public:
  Narrowed(const View& view, std::int64_t count)
      : view_(view), count_(count), scratch_(view.dtype == dtype_of<T> ? 0 : count) {}
  [[nodiscard]] T* data() const {
    return view_.dtype == dtype_of<T> ? static_cast<T*>(view_.data) : scratch_.data();
  }
  void finish() const {
    if (view_.dtype == dtype_of<T>) return;
    auto* const to = static_cast<std::byte*>(view_.data);
    parallel_for(count_, kConverted, [&](std::int64_t begin, std::int64_t end) {
      convert(scratch_.data() + begin, dtype_of<T>, to + begin * size_of(view_.dtype), view_.dtype,
              end - begin);
    });
  }

 private:
  const View& view_;
  std::int64_t count_;
  RowScratch<T> scratch_;
};

/// The types and sizes that the loops are compiled for.
template <class Number, class Index, int kAxisCount, int kCornerCount>
struct Variant {
  using T = Number;
  static constexpr int kAxes = kAxisCount, kCorners = kCornerCount;
  using Block = CornerBlock<T, Index, kAxes, kCorners>;
  template <GridPadding kPadding>
  static void find(const GridSampleShape& shape, const T* grid, std::int64_t n, Block* block) {
    constexpr auto kMode = kCorners == 1 ? GridSampleMode::nearest : GridSampleMode::bilinear;
    const Axes<kAxes> axes(shape);
    LowPlaces<kAxes> low;
    run_isa<FindCells<T, kAxes, kMode, kPadding>>(static_cast<T(*)[kGridBlock]>(block->upper),
                                                  static_cast<T(*)[kGridBlock]>(block->slope), &low, grid, n,
                                                  axes, shape.rule.align_corners);
    run_isa<FindCorners<Block, T, kAxes, kCorners>>(block, static_cast<const LowPlaces<kAxes>*>(&low), n,
                                                    axes);
  }
  static void find_corners(const GridSampleShape& shape, const T* grid, std::int64_t n, Block* block) {
    if (shape.rule.padding == GridPadding::zeros) return find<GridPadding::zeros>(shape, grid, n, block);
    if (shape.rule.padding == GridPadding::border) return find<GridPadding::border>(shape, grid, n, block);
    find<GridPadding::reflection>(shape, grid, n, block);
  }
};
/// Calls f with the variant for a call.
template <class F>
void with_variant(const GridSampleShape& shape, DType compute, const F& f) {
  const auto with_corners = [&]<class T, class Index>(T, Index) {
    const bool nearest = shape.rule.mode == GridSampleMode::nearest;
    if (shape.axes == 2)
      nearest ? f(Variant<T, Index, 2, 1>{}) : f(Variant<T, Index, 2, 4>{});
    else
      nearest ? f(Variant<T, Index, 3, 1>{}) : f(Variant<T, Index, 3, 8>{});
  };
  // Vector instructions gather twice as many elements at once by 32-bit offsets.
  const bool narrow = shape.plane() * shape.channels <= std::numeric_limits<std::int32_t>::max();
  if (compute == DType::f64)
    with_corners(double{}, std::int64_t{});
  else if (narrow)
    with_corners(float{}, std::int32_t{});
  else
    with_corners(float{}, std::int64_t{});
}

/// Calls f(block, sample, first place, places) for the places [begin, end) of all samples counted through;
/// `grid` holds their coordinates.
template <class V, class F>
void for_corner_blocks(const GridSampleShape& shape, const typename V::T* grid, std::int64_t begin,
                       std::int64_t end, const F& f) {
  const auto block = std::make_unique_for_overwrite<typename V::Block>();
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t sample = at / shape.places, place = at - sample * shape.places;
    const std::int64_t n = std::min({kGridBlock, shape.places - place, end - at});
    V::find_corners(shape, grid + at * V::kAxes, n, block.get());
    f(block.get(), sample, place, n);
    at += n;
  }
}

/// Places of a chunk: so many that each has some ten thousand elements.
std::int64_t places_per_chunk(const GridSampleShape& shape) {
  return std::max<std::int64_t>(kGridBlock,
                                (std::int64_t{1} << 14) / std::max<std::int64_t>(shape.channels, 1));
}

}  // namespace

void grid_sample(const GridSampleShape& shape, const View& out, const View& x, const View& grid,
                 DType compute) {
  with_variant(shape, compute, [&]<class V>(V) {
    using T = typename V::T;
    using Block = typename V::Block;
    const std::int64_t channels = shape.channels, plane = shape.plane(), places = shape.places;
    const Widened<T> from(x.data, x.dtype, shape.batch * channels * plane);
    const Widened<T> coordinates(grid.data, grid.dtype, shape.batch * places * V::kAxes);
    const Narrowed<T> to(out, shape.batch * channels * places);
    const RowScratch<T> zeros(channels);
    std::fill_n(zeros.data(), channels, T(0));
    const auto sample_block = [&](const Block* block, std::int64_t sample, std::int64_t first,
                                  std::int64_t n) {
      const T* const image = from.data() + sample * channels * plane;
      T* const result = to.data() + (sample * places + first) * channels;
      run_isa<SampleChannels<Block, T, V::kCorners>>(block, image, zeros.data(), result, n, channels);
    };
    parallel_for(shape.batch * places, places_per_chunk(shape), [&](std::int64_t begin, std::int64_t end) {
      for_corner_blocks<V>(shape, coordinates.data(), begin, end, sample_block);
    });
    to.finish();
  });
}

void grid_sample_input_gradient(const GridSampleShape& shape, const View& out, const View& grad,
                                const View& grid, DType compute) {
  // A cache line at least.
  constexpr std::int64_t kGroup = 16;
  with_variant(shape, compute, [&]<class V>(V) {
    using T = typename V::T;
    using Block = typename V::Block;
    const std::int64_t channels = shape.channels, plane = shape.plane(), places = shape.places;
    const std::int64_t groups = (channels + kGroup - 1) / kGroup, total = shape.batch * channels * plane;
    const Widened<T> from(grad.data, grad.dtype, shape.batch * channels * places);
    const Widened<T> coordinates(grid.data, grid.dtype, shape.batch * places * V::kAxes);
    const Narrowed<T> to(out, total);
    parallel_for(total, kConverted, [&](std::int64_t begin, std::int64_t end) {
      std::fill(to.data() + begin, to.data() + end, T(0));
    });
    const auto one_group = [&](std::int64_t index) {
      const std::int64_t first_channel = index % groups * kGroup, sample_begin = index / groups * places;
      const std::int64_t count = std::min(kGroup, channels - first_channel);
      const auto add_block = [&](const Block* block, std::int64_t sample, std::int64_t first,
                                 std::int64_t n) {
        const T* const g = from.data() + sample * channels * places;
        T* const result = to.data() + sample * channels * plane;
        run_isa<AddToCorners<Block, T, V::kCorners>>(block, g + first * channels + first_channel,
                                                     result + first_channel, n, channels, count);
      };
      for_corner_blocks<V>(shape, coordinates.data(), sample_begin, sample_begin + places, add_block);
    };
    parallel_for(shape.batch * groups, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) one_group(index);
    });
    to.finish();
  });
}

void grid_sample_grid_gradient(const GridSampleShape& shape, const View& out, const View& grad, const View& x,
                               const View& grid, DType compute) {
  constexpr std::int64_t kGroup = 16;  // channels that are added up in T before they are in f64
  with_variant(shape, compute, [&]<class V>(V) {
    if constexpr (V::kCorners > 1) {
      using T = typename V::T;
      using Block = typename V::Block;
      const std::int64_t channels = shape.channels, plane = shape.plane(), places = shape.places;
      const Widened<T> from(x.data, x.dtype, shape.batch * channels * plane),
          gradients(grad.data, grad.dtype, shape.batch * channels * places);
      const Widened<T> coordinates(grid.data, grid.dtype, shape.batch * places * V::kAxes);
      const Narrowed<T> to(out, shape.batch * places * V::kAxes);
      const auto add_block = [&](const Block* block, std::int64_t sample, std::int64_t first,
                                 std::int64_t n) {
        const T* const image = from.data() + sample * channels * plane;
        const T* const g = gradients.data() + (sample * places + first) * channels;
        T sums[V::kAxes][kGridBlock];
        double totals[V::kAxes][kGridBlock] = {};
        for (std::int64_t c = 0; c < channels; ++c) {
          if (c % kGroup == 0) std::memset(sums, 0, sizeof sums);
          run_isa<AddSlopes<Block, T, V::kAxes>>(block, g + c, image + c, sums, n, channels);
          if ((c + 1) % kGroup != 0 && c + 1 != channels) continue;
          for (int a = 0; a < V::kAxes; ++a) {
            for (std::int64_t p = 0; p < n; ++p) totals[a][p] += static_cast<double>(sums[a][p]);
          }
        }
        T* const result = to.data() + (sample * places + first) * V::kAxes;
        for (std::int64_t p = 0; p < n; ++p) {
          for (int a = 0; a < V::kAxes; ++a)
            result[p * V::kAxes + a] = static_cast<T>(totals[a][p] * static_cast<double>(block->slope[a][p]));
        }
      };
      parallel_for(shape.batch * places, places_per_chunk(shape), [&](std::int64_t begin, std::int64_t end) {
        for_corner_blocks<V>(shape, coordinates.data(), begin, end, add_block);
      });
      to.finish();
    }
  });
}

}  // namespace mezzo::kernels::cpu
