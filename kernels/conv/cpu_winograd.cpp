// Tiles of 6 x 6 inputs become 36 numbers a channel. Their products with the transformed weights, added up
// over the channels, are transformed back to 4 x 4 outputs: 36 multiplications where direct convolution has
// 144. The gradient of the input is a convolution with the weights turned round; that of the weight takes
// tiles of 4 x 4 gradients in the weights' place. Channels are the lanes of all transforms, so row-major
// images are brought into channels-last order, and back.
//
// A result that is not finite reaches all results of its tile. So where one is, the part is left to an engine
// that has each result of its own numbers alone.
#include "mezzo/kernels/conv/cpu_winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "mezzo/kernels/conv/cpu_images.h"
#include "mezzo/kernels/conv/cpu_winograd_tiles.h"
#include "mezzo/kernels/cpu/isa.h"
#include "mezzo/kernels/cpu/multiversion.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/gemm/cpu_panel.h"
#include "mezzo/kernels/gemm/cpu_tile.h"

namespace mezzo::kernels::cpu {
namespace winograd {
namespace {

/// Channels whose products are added up before they are added to those of others: what the weights of 32
/// outputs take of a cache, and a bound of the error.
constexpr std::int64_t kDepth = 64;
/// Tiles of a block: fewer would read the weights more often than they are worth.
constexpr std::int64_t kBlockTiles = 32;
/// Of a weight's gradient, numbers of the inputs and gradients of a block.
constexpr std::int64_t kGradientBlock = 1 << 21;

/// Transformed weights of kDepth channels that are read and kPanel that are written: [plane, read, written].
constexpr std::int64_t kWeightPlane = kDepth * kPanel + kGap, kWeightBlock = kPlanes * kWeightPlane;

/// A convolution of one group: forward, or with turned weights the gradient of the input.
class Pass {
 public:
  Pass(const ConvPart<float>& part, std::int64_t from, std::int64_t to)
      : part_(part),
        is_turned_(part.map == ConvMap::input_gradient),
        from_(from),
        to_(to),
        read_(is_turned_ ? part.y : part.x, part.shape.batch, from, sizes(is_turned_)[1],
              sizes(is_turned_)[2]),
        written_(is_turned_ ? part.x : part.y, part.shape.batch, to, sizes(!is_turned_)[1],
                 sizes(!is_turned_)[2]),
        grid_(part.shape.batch, sizes(!is_turned_)),
        block_(std::min(grid_.count(), kBlockTiles)),
        inputs_(block_, kDepth),
        sums_(block_, kPanel, ceil_div(to, kPanel)) {}

  /// False where a result is not finite.
  [[nodiscard]] bool run() const {
    read_.load();
    float all = 0;
    for (std::int64_t first = 0; first < grid_.count(); first += block_) {
      const std::int64_t tiles = std::min(block_, grid_.count() - first);
      for (std::int64_t from = 0; from < from_; from += kDepth) {
        transform_inputs(first, tiles, from);
        for (std::int64_t to = 0; to < to_; to += kPanel) multiply(tiles, from, to);
      }
      for (std::int64_t t = 0; t < tiles; ++t) all += write_tile(t, grid_.at(first + t));
    }
    if (!std::isfinite(all)) return false;
    written_.store();
    return true;
  }

 private:
  [[nodiscard]] const Windows::Sizes& sizes(bool of_y) const {
    return of_y ? part_.shape.windows.output : part_.shape.windows.input;
  }
  [[nodiscard]] std::int64_t padding(std::size_t dim) const {
    const std::int64_t given = part_.shape.windows.padding[dim];
    return is_turned_ ? kKernel - 1 - given : given;
  }

  void transform_inputs(std::int64_t first, std::int64_t tiles, std::int64_t from) const {
    for (std::int64_t t = 0; t < tiles; ++t) {
      const TileGrid::Place at = grid_.at(first + t);
      const auto places = read_.tile<kInputs>(at.n, at.y - padding(1), at.x - padding(2), from);
      run_isa<TileToPlanes<Input>>(places.data(), inputs_.at(t), inputs_.plane(),
                                   std::min(kDepth, from_ - from));
    }
  }

  void multiply(std::int64_t tiles, std::int64_t from, std::int64_t to) const {
    const std::int64_t block = to / kPanel * ceil_div(from_, kDepth) + from / kDepth;
    const float* const weights = part_.packed + block * kWeightBlock;
    const float one = 1;
    for (int f = 0; f < kPlanes; ++f) {
      panel_product({.m = tiles,
                     .n = std::min(kPanel, to_ - to),
                     .k = std::min(kDepth, from_ - from),
                     .a = inputs_.at(0) + f * inputs_.plane(),
                     .a_row = kDepth,
                     .a_step = 1,
                     .b = weights + f * kWeightPlane,
                     .ldb = kPanel,
                     .c = sums_.at(0, to / kPanel) + f * sums_.plane(),
                     .ldc = kPanel,
                     .keep = from > 0 ? &one : nullptr});
    }
  }

  [[nodiscard]] float write_tile(std::int64_t tile, const TileGrid::Place& at) const {
    float all = 0;
    for (std::int64_t to = 0; to < to_; to += kPanel) {
      const auto places = written_.tile<kOutputs>(at.n, at.y, at.x, to);
      all += run_isa<PlanesToTile>(sums_.at(tile, to / kPanel), sums_.plane(), places.data(),
                                   part_.bias != nullptr ? part_.bias + to : nullptr,
                                   std::min(kPanel, to_ - to));
    }
    return all;
  }

  const ConvPart<float>& part_;
  bool is_turned_;
  std::int64_t from_, to_;  ///< channels
  TileImages read_, written_;
  TileGrid grid_;
  std::int64_t block_;  ///< tiles
  TilePlanes inputs_, sums_;
};

/// The gradient of a weight of one group.
class Gradient {
 public:
  explicit Gradient(const ConvPart<float>& part)
      : part_(part),
        in_(part.shape.in_channels),
        out_(part.shape.out_channels),
        x_(part.x, part.shape.batch, in_, part.shape.windows.input[1], part.shape.windows.input[2]),
        y_(part.y, part.shape.batch, out_, part.shape.windows.output[1], part.shape.windows.output[2]),
        grid_(part.shape.batch, part.shape.windows.output),
        block_(std::min(grid_.count(), std::max(kBlockTiles, kGradientBlock / (kPlanes * (in_ + out_))))),
        inputs_(block_, in_),
        gradients_(block_, out_),
        sums_(kDepth, kPanel),
        lines_(kPanel * kDepth * kWeights) {}

  /// False where a result is not finite.
  [[nodiscard]] bool run() const {
    x_.load(), y_.load();
    const std::int64_t size = out_ * in_ * kWeights;
    const RowScratch<float> result(size);
    std::fill_n(result.data(), size, 0.0F);
    float all = 0;
    for (std::int64_t first = 0; first < grid_.count(); first += block_) {
      const std::int64_t tiles = std::min(block_, grid_.count() - first);
      transform_tiles(first, tiles);
      for (std::int64_t out = 0; out < out_; out += kPanel) {
        for (std::int64_t in = 0; in < in_; in += kDepth) all += add(tiles, in, out, result.data());
      }
    }
    if (!std::isfinite(all)) return false;
    for (std::int64_t out = 0; out < out_; ++out) {
      const float* const from = result.data() + out * in_ * kWeights;
      float* const to = part_.weight + out * part_.weight_stride;
      part_.accumulate ? add_to(to, from, in_ * kWeights)
                       : static_cast<void>(std::copy_n(from, in_ * kWeights, to));
    }
    return true;
  }

 private:
  void transform_tiles(std::int64_t first, std::int64_t tiles) const {
    const Windows::Sizes& padding = part_.shape.windows.padding;
    for (std::int64_t t = 0; t < tiles; ++t) {
      const TileGrid::Place at = grid_.at(first + t);
      const auto inputs = x_.tile<kInputs>(at.n, at.y - padding[1], at.x - padding[2], 0);
      run_isa<TileToPlanes<Input>>(inputs.data(), inputs_.at(t), inputs_.plane(), in_);
      const auto gradients = y_.tile<kOutputs>(at.n, at.y, at.x, 0);
      run_isa<TileToPlanes<OutputGradient>>(gradients.data(), gradients_.at(t), gradients_.plane(), out_);
    }
  }

  /// Adds a block's gradients of the weights from channels [in, in + kDepth) to [out, out + kPanel).
  [[nodiscard]] float add(std::int64_t tiles, std::int64_t in, std::int64_t out, float* result) const {
    const std::int64_t depth = std::min(kDepth, in_ - in), width = std::min(kPanel, out_ - out);
    for (int f = 0; f < kPlanes; ++f) {
      panel_product({.m = depth,
                     .n = width,
                     .k = tiles,
                     .a = inputs_.at(0) + f * inputs_.plane() + in,
                     .a_row = 1,
                     .a_step = in_,
                     .b = gradients_.at(0) + f * gradients_.plane() + out,
                     .ldb = out_,
                     .c = sums_.at(0) + f * sums_.plane(),
                     .ldc = kPanel});
    }
    float all = 0;
    alignas(64) float rows[kDepth * kWeights * kPanel];
    for (std::int64_t c = 0; c < depth; ++c)
      all += run_isa<PlanesToWeights>(sums_.at(c), sums_.plane(), rows + c * kWeights * width, width);
    const std::int64_t length = depth * kWeights;
    turn(rows, width, lines_.data(), length, length, width);
    for (std::int64_t o = 0; o < width; ++o)
      add_to<float>(result + ((out + o) * in_ + in) * kWeights, lines_.data() + o * length, length);
    return all;
  }

  const ConvPart<float>& part_;
  std::int64_t in_, out_;  ///< channels
  TileImages x_, y_;
  TileGrid grid_;
  std::int64_t block_;  ///< tiles
  TilePlanes inputs_, gradients_, sums_;
  RowScratch<float> lines_;
};

class Engine final : public ConvEngine<float> {
 public:
  Engine(ConvMap map, const ConvShape& part)
      : map_(map),
        from_(map == ConvMap::input_gradient ? part.out_channels : part.in_channels),
        to_(map == ConvMap::input_gradient ? part.in_channels : part.out_channels) {}

  [[nodiscard]] bool takes_channels_last() const override { return true; }
  [[nodiscard]] std::int64_t packed_size() const override {
    return map_ == ConvMap::weight_gradient ? 0 : blocks() * kWeightBlock;
  }
  void pack(const float* weight, std::int64_t stride, float* packed) const override {
    parallel_for(blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) pack_block(weight, stride, i, packed + i * kWeightBlock);
    });
  }
  [[nodiscard]] bool run(const ConvPart<float>& part) const override {
    return map_ == ConvMap::weight_gradient ? Gradient(part).run() : Pass(part, from_, to_).run();
  }

 private:
  [[nodiscard]] std::int64_t blocks() const { return ceil_div(to_, kPanel) * ceil_div(from_, kDepth); }

  void pack_block(const float* weight, std::int64_t stride, std::int64_t block, float* planes) const {
    const std::int64_t depths = ceil_div(from_, kDepth), from = block % depths * kDepth,
                       to = block / depths * kPanel;
    const std::int64_t depth = std::min(kDepth, from_ - from), width = std::min(kPanel, to_ - to);
    const bool is_turned = map_ == ConvMap::input_gradient;
    alignas(64) float rows[kDepth * kWeights * kPanel];  // [read, weight, written]
    if (!is_turned)
      turn(weight + to * stride + from * kWeights, stride, rows, width, width, depth * kWeights);
    for (std::int64_t c = 0; c < depth; ++c) {
      float* const nine = rows + c * kWeights * width;
      if (is_turned)
        turn(weight + (from + c) * stride + to * kWeights, kWeights, nine, width, width, kWeights);
      run_isa<WeightsToPlanes>(is_turned ? nine + (kWeights - 1) * width : nine, is_turned ? -width : width,
                               planes + c * kPanel, kWeightPlane, width);
    }
  }

  ConvMap map_;
  std::int64_t from_, to_;  ///< channels that are read and, but for a weight's gradient, written
};

}  // namespace
}  // namespace winograd

bool is_by_winograd(ConvMap map, const ConvShape& shape, bool has_bf16_engine) {
  if (!allow_winograd() || gemm_engine_is_named() || isa() == Isa::base) return false;
  const Windows& w = shape.windows;
  const Windows::Sizes kernel{1, winograd::kKernel, winograd::kKernel}, ones{1, 1, 1};
  const bool fits = shape.groups == 1 && w.kernel == kernel && w.stride == ones && w.dilation == ones &&
                    w.input[0] == 1 && w.padding[0] == 0 &&
                    std::max(w.padding[1], w.padding[2]) < winograd::kKernel &&
                    shape.in_channels % winograd::kLanes == 0 && shape.out_channels % winograd::kLanes == 0;
  constexpr std::int64_t kLeastChannels = 32, kLeastTiles = 32, kMostWeights = 256 * 256;
  if (!fits || std::min(shape.in_channels, shape.out_channels) < kLeastChannels) return false;
  if (has_bf16_engine && has_matrix_units()) return false;
  // Weights are transformed once a call, for which few tiles are not enough.
  const std::int64_t weights = shape.in_channels * shape.out_channels,
                     tiles = winograd::TileGrid(shape.batch, w.output).count();
  if (map == ConvMap::weight_gradient) return tiles >= kLeastTiles / 2;
  return tiles >= (weights > kMostWeights ? 2 * kLeastTiles : kLeastTiles) &&
         (!has_bf16_engine || weights <= kMostWeights / 4);
}

std::shared_ptr<const ConvEngine<float>> conv_winograd(ConvMap map, const ConvShape& part) {
  return std::make_shared<winograd::Engine>(map, part);
}

std::int64_t winograd_image_parts(const ConvShape& shape) {
  return std::max<std::int64_t>(
      1, winograd::TileGrid(shape.batch, shape.windows.output).count() / winograd::kBlockTiles);
}

}  // namespace mezzo::kernels::cpu
