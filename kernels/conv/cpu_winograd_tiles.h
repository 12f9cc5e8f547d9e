// What Winograd's engine (cpu_winograd.cpp) is made of: tiles of images, the planes that their transforms go
// to, and the loops of the transforms, with 16 channels as lanes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "mezzo/core/host_device.h"
#include "mezzo/kernels/conv/cpu_part.h"
#include "mezzo/kernels/conv/winograd_math.h"
#include "mezzo/kernels/cpu/parallel.h"
#include "mezzo/kernels/cpu/rows.h"
#include "mezzo/kernels/cpu/transpose.h"

namespace mezzo::kernels::cpu::winograd {

/// Numbers of a tile after its transform, each in a plane of its own, and of a kernel.
inline constexpr int kPlanes = kInputs * kInputs, kWeights = kKernel * kKernel;
/// Between planes, so that they do not share the sets of a cache.
inline constexpr std::int64_t kGap = 16;

/// Rows become columns.
inline void turn(const float* from, std::int64_t from_pitch, float* to, std::int64_t to_pitch,
                 std::int64_t rows, std::int64_t columns) {
  detail::transpose(reinterpret_cast<const std::uint32_t*>(from), from_pitch,
                    reinterpret_cast<std::uint32_t*>(to), to_pitch, rows, columns);
}

// --- the transforms, of 16 channels at a time; bodies for run_isa

using Lanes [[gnu::vector_size(64)]] = float;
inline constexpr std::int64_t kLanes = 16;

/// The numbers of a tile anywhere: each where an address says.
struct Places {
  float* const* data;
  std::int64_t channel;
  MEZZO_ALWAYS_INLINE void load(Lanes& value, int i) const {
    __builtin_memcpy(&value, data[i] + channel, sizeof value);
  }
};
/// The numbers of a tile as far from each other as planes are.
struct Planes {
  float* data;
  std::int64_t distance;
  MEZZO_ALWAYS_INLINE void load(Lanes& value, int i) const {
    __builtin_memcpy(&value, data + i * distance, sizeof value);
  }
  MEZZO_ALWAYS_INLINE void store(const Lanes& value, int i) const {
    __builtin_memcpy(data + i * distance, &value, sizeof value);
  }
};

/// A transform of two dims.
template <class Transform, class From, class To>
MEZZO_ALWAYS_INLINE void transform(const From& from, const To& to) {
  Lanes half[Transform::kTo][Transform::kFrom];
  for (int j = 0; j < Transform::kFrom; ++j) {
    Lanes column[Transform::kFrom], result[Transform::kTo];
    for (int i = 0; i < Transform::kFrom; ++i) from.load(column[i], i * Transform::kFrom + j);
    Transform::run(column, result);
    for (int i = 0; i < Transform::kTo; ++i) half[i][j] = result[i];
  }
  for (int i = 0; i < Transform::kTo; ++i) {
    Lanes result[Transform::kTo];
    Transform::run(half[i], result);
    for (int j = 0; j < Transform::kTo; ++j) to.store(result[j], i * Transform::kTo + j);
  }
}

/// From a tile of images to planes.
template <class Transform>
struct TileToPlanes {
  static void run(float* const* places, float* planes, std::int64_t plane, std::int64_t channels) {
    for (std::int64_t c = 0; c < channels; c += kLanes)
      transform<Transform>(Places{places, c}, Planes{planes + c, plane});
  }
};

/// From the nine rows of weights to planes; `step` from row to row, below 0 where they are turned round.
struct WeightsToPlanes {
  static void run(float* weights, std::int64_t step, float* planes, std::int64_t plane,
                  std::int64_t channels) {
    for (std::int64_t c = 0; c < channels; c += kLanes)
      transform<Weight>(Planes{weights + c, step}, Planes{planes + c, plane});
  }
};

[[nodiscard]] MEZZO_ALWAYS_INLINE float sum_of(const Lanes& lanes) {
  float total = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) total += lanes[i];
  return total;
}

/// From planes to the outputs of a tile, with a bias; nullptr: none. Returns the sum of all, which is finite
/// only if they are.
struct PlanesToTile {
  struct Outputs {
    float* const* data;
    std::int64_t channel;
    const Lanes& bias;
    Lanes& all;
    MEZZO_ALWAYS_INLINE void store(const Lanes& value, int i) const {
      const Lanes output = value + bias;
      all += output;
      __builtin_memcpy(data[i] + channel, &output, sizeof output);
    }
  };
  static float run(float* planes, std::int64_t plane, float* const* places, const float* bias,
                   std::int64_t channels) {
    Lanes all{}, added{};
    for (std::int64_t c = 0; c < channels; c += kLanes) {
      if (bias != nullptr) __builtin_memcpy(&added, bias + c, sizeof added);
      transform<Output>(Planes{planes + c, plane}, Outputs{places, c, added, all});
    }
    return sum_of(all);
  }
};

/// From planes to nine rows of gradients of weights. Returns their sum, as PlanesToTile.
struct PlanesToWeights {
  struct Rows {
    Planes rows;
    Lanes& all;
    MEZZO_ALWAYS_INLINE void store(const Lanes& value, int i) const {
      all += value;
      rows.store(value, i);
    }
  };
  static float run(float* planes, std::int64_t plane, float* weights, std::int64_t channels) {
    Lanes all{};
    for (std::int64_t c = 0; c < channels; c += kLanes)
      transform<WeightGradient>(Planes{planes + c, plane}, Rows{{weights + c, channels}, all});
    return sum_of(all);
  }
};

// --- images and their tiles

/// Images in channels-last order: as they lie, or in memory of their own.
class TileImages {
 public:
  TileImages(const ConvImages<float>& images, std::int64_t batch, std::int64_t channels, std::int64_t height,
             std::int64_t width)
      : outer_(images),
        batch_(batch),
        channels_(channels),
        height_(height),
        width_(width),
        scratch_(is_in_place() ? 0 : batch * channels * places()),
        outside_(channels) {
    std::fill_n(outside_.data(), channels, 0.0F);
  }

  void load() const {
    if (is_in_place()) return;
    for (std::int64_t n = 0; n < batch_; ++n)
      turn(outer_.data + n * outer_.batch_stride, outer_.channel_stride, image(n), channels_, channels_,
           places());
  }
  void store() const {
    if (is_in_place()) return;
    for (std::int64_t n = 0; n < batch_; ++n)
      turn(image(n), channels_, outer_.data + n * outer_.batch_stride, outer_.channel_stride, places(),
           channels_);
  }

  /// The addresses of kSide x kSide places from (y, x) of image n on, of the channels from `channel` on. All
  /// places outside of the image have one address, with zeros until something is written there.
  template <int kSide>
  [[nodiscard]] std::array<float*, std::size_t{kSide} * kSide> tile(std::int64_t n, std::int64_t y,
                                                                    std::int64_t x,
                                                                    std::int64_t channel) const {
    std::array<float*, std::size_t{kSide} * kSide> result;
    float* const first = image(n) + channel;
    const std::int64_t step = is_in_place() ? outer_.place_stride : channels_;
    std::size_t k = 0;
    for (std::int64_t i = y; i < y + kSide; ++i) {
      for (std::int64_t j = x; j < x + kSide; ++j, ++k) {
        const bool inside = i >= 0 && i < height_ && j >= 0 && j < width_;
        result[k] = inside ? first + (i * width_ + j) * step : outside_.data() + channel;
      }
    }
    return result;
  }

 private:
  [[nodiscard]] std::int64_t places() const { return height_ * width_; }
  [[nodiscard]] bool is_in_place() const { return outer_.channel_stride == 1; }
  [[nodiscard]] float* image(std::int64_t n) const {
    return is_in_place() ? outer_.data + n * outer_.batch_stride : scratch_.data() + n * channels_ * places();
  }

  ConvImages<float> outer_;
  std::int64_t batch_, channels_, height_, width_;
  RowScratch<float> scratch_, outside_;
};

/// The tiles of outputs, counted through all images.
struct TileGrid {
  std::int64_t batch, down, across;

  TileGrid(std::int64_t images, const Windows::Sizes& outputs)
      : batch(images), down(ceil_div(outputs[1], kOutputs)), across(ceil_div(outputs[2], kOutputs)) {}
  [[nodiscard]] std::int64_t count() const { return batch * down * across; }
  /// Image, row and column of a tile's first output.
  struct Place {
    std::int64_t n, y, x;
  };
  [[nodiscard]] Place at(std::int64_t tile) const {
    return {tile / (down * across), tile / across % down * kOutputs, tile % across * kOutputs};
  }
};

/// Transformed tiles: [block, plane, tile, channel].
class TilePlanes {
 public:
  TilePlanes(std::int64_t tiles, std::int64_t channels, std::int64_t blocks = 1)
      : channels_(channels), plane_(tiles * channels + kGap), scratch_(blocks * kPlanes * plane_) {}
  /// From plane to plane.
  [[nodiscard]] std::int64_t plane() const { return plane_; }
  [[nodiscard]] float* at(std::int64_t tile, std::int64_t block = 0) const {
    return scratch_.data() + block * kPlanes * plane_ + tile * channels_;
  }

 private:
  std::int64_t channels_, plane_;
  RowScratch<float> scratch_;
};

}  // namespace mezzo::kernels::cpu::winograd
