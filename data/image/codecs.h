// Images as pixels, between the tensors and the codecs: JPEG by libjpeg-turbo, PNG by libpng. Not for use
// outside of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mezzo::data::detail {

/// Rows of pixels of 1 to 4 channels: gray, gray and alpha, RGB, RGBA.
struct Pixels {
  std::size_t width = 0, height = 0, channels = 0;
  std::size_t depth = 1;  ///< bytes of a channel; two are in the machine's order
  std::vector<std::uint8_t> bytes = {};
};

/// The arguments of a decoder besides the bytes.
struct ImageLimits {
  const std::string& op;
  std::uint64_t max_pixels;
  bool keep_16_bits = false;
};

/// Throws: IoError for an image of no pixels and of more than the limit.
void check_pixels(const ImageLimits& limits, std::uint64_t width, std::uint64_t height);

/// Throws: IoError where an encoded image of `size` bytes is shorter than `least`, which is what its pixels
/// take at the very least: so nobody gets much memory for a few bytes.
void check_encoded_size(const ImageLimits& limits, std::uint64_t size, std::uint64_t least);

/// Gray or RGB. Throws: IoError.
[[nodiscard]] Pixels decode_jpeg(std::span<const std::byte> bytes, const ImageLimits& limits);

/// 8 bits per channel, or 16 where they are there and asked for, palettes expanded. Throws: IoError.
[[nodiscard]] Pixels decode_png(std::span<const std::byte> bytes, const ImageLimits& limits);

/// Throws: IoError.
[[nodiscard]] std::vector<std::uint8_t> encode_png(const Pixels& pixels, const std::string& op);

}  // namespace mezzo::data::detail
