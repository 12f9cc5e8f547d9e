// Limits of images, the same for all codecs.
#include "mezzo/data/image/pixels.h"

#include "mezzo/core/error.h"

namespace mezzo::data::detail {

void check_pixels(const ImageLimits& limits, std::uint64_t width, std::uint64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width == 0 || height == 0) throw IoError(limits.op, "an image of 1 pixel or more", size, "");
  if (width <= limits.max_pixels && height <= limits.max_pixels / width) return;
  throw IoError(limits.op, "an image of at most " + std::to_string(limits.max_pixels) + " pixels", size,
                "raise .max_pixels where the file is trusted");
}

void check_encoded_size(const ImageLimits& limits, std::uint64_t size, std::uint64_t least) {
  if (size >= least) return;
  throw IoError(limits.op, "at least " + std::to_string(least) + " bytes for an image of this size",
                std::to_string(size) + " bytes", "fetch the file again");
}

}  // namespace mezzo::data::detail
