// Sizes of parts: see cpu_plan.h.
#include "mezzo/kernels/conv/cpu_plan.h"

#include <algorithm>
#include <bit>

namespace mezzo::kernels::cpu {
namespace {

/// Parts for this many threads, while each takes some 20 us.
constexpr std::int64_t kWantedParts = 8;
constexpr double kMinPartProducts = 1e6;
/// Images of a block together, so that what one step writes the next finds in the cache. A block adds to the
/// whole weight gradient, and is larger where that is large, up to a limit of the memory it takes.
constexpr double kBlockBytes = 1 << 20, kGradientBlockFactor = 8, kMaxBlockBytes = 4 << 20;
/// Channels of a part of a single group are a multiple of this: a vector of f32.
constexpr std::int64_t kChannelUnit = 16;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The channels, or groups, that parts divide between them.
std::int64_t divided_channels(ConvMap map, const ConvShape& shape) {
  if (shape.groups > 1) return shape.groups;
  return map == ConvMap::input_gradient ? shape.in_channels : shape.out_channels;
}

/// The largest number of parts up to `wanted` that divides them evenly.
std::int64_t channel_parts(ConvMap map, const ConvShape& shape, std::int64_t wanted) {
  const std::int64_t channels = divided_channels(map, shape), unit = shape.groups > 1 ? 1 : kChannelUnit;
  for (std::int64_t parts = wanted; parts > 1; --parts) {
    if (channels % parts == 0 && channels / parts % unit == 0) return parts;
  }
  return 1;
}

}  // namespace

double conv_products(const ConvShape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.out_channels) *
         static_cast<double>(shape.in_channels / shape.groups) *
         static_cast<double>(shape.windows.kernels()) * static_cast<double>(shape.windows.outputs());
}

ConvCut cut_convolution(ConvMap map, const ConvShape& shape, std::size_t element_size) {
  const std::int64_t wanted = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::min(conv_products(shape) / kMinPartProducts, 1e3)), 1, kWantedParts);
  const auto size = static_cast<double>(element_size);
  const double image = size * static_cast<double>(shape.in_channels * shape.windows.inputs() +
                                                  shape.out_channels * shape.windows.outputs());
  const double weight = size * static_cast<double>(shape.out_channels) *
                        static_cast<double>(shape.in_channels / shape.groups * shape.windows.kernels());
  // A part of the images has a gradient of its own, a part of the channels reads all of x: as many parts of
  // the images as their gradients together are no larger than the images.
  const bool gradient = map == ConvMap::weight_gradient;
  std::int64_t image_parts = std::min(wanted, shape.batch);
  if (gradient) {
    const double fit = image * static_cast<double>(shape.batch) / std::max(weight, 1.0);
    const auto most_parts = static_cast<std::uint64_t>(std::clamp<double>(fit, 1, kWantedParts));
    image_parts = std::min(image_parts, static_cast<std::int64_t>(std::bit_floor(most_parts)));
  }
  const std::int64_t most = ceil_div(shape.batch, image_parts);
  const double block =
      gradient ? std::clamp(kGradientBlockFactor * weight, kBlockBytes, kMaxBlockBytes) : kBlockBytes;
  const auto images = static_cast<std::int64_t>(std::min(block / image, static_cast<double>(most)));
  ConvCut cut{shape.batch, std::max<std::int64_t>(images, 1), 1, 1};
  if (gradient) cut.blocks_per_part = ceil_div(most, cut.images);
  cut.channel_parts = channel_parts(map, shape, wanted / cut.image_parts());
  return cut;
}

ConvShape part_of(ConvMap map, const ConvShape& shape, std::int64_t images, std::int64_t channel_parts) {
  ConvShape part = shape;
  part.batch = images;
  if (shape.groups > 1) {
    part.groups /= channel_parts, part.in_channels /= channel_parts, part.out_channels /= channel_parts;
  } else {
    (map == ConvMap::input_gradient ? part.in_channels : part.out_channels) /= channel_parts;
  }
  return part;
}

}  // namespace mezzo::kernels::cpu
