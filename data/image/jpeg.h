// JPEG by libjpeg-turbo. Not for use outside of data.
#pragma once

#include <cstddef>
#include <span>

#include "mezzo/data/image/pixels.h"

namespace mezzo::data::detail {

/// Gray or RGB. Throws: IoError.
[[nodiscard]] Pixels decode_jpeg(std::span<const std::byte> bytes, const ImageLimits& limits);

}  // namespace mezzo::data::detail
