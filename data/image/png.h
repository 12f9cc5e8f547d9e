// PNG by libpng. Not for use outside of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/data/image/pixels.h"

namespace mezzo::data::detail {

/// 8 bits per channel, palettes expanded. Throws: IoError.
[[nodiscard]] Pixels decode_png(std::span<const std::byte> bytes, const ImageLimits& limits);

/// Throws: IoError.
[[nodiscard]] std::vector<std::uint8_t> encode_png(const Pixels& pixels, const std::string& op);

}  // namespace mezzo::data::detail
