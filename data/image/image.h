// PNG and JPEG images as tensors, and tensors as PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

/// The channels of an image that is read.
enum class ImageMode : std::uint8_t {
  unchanged,  ///< as in the file: gray, gray and alpha, RGB, or RGBA
  gray,       ///< of colours (299 R + 587 G + 114 B) / 1000, as Pillow's mode L
  rgb,
  rgba,  ///< alpha is 255 where the image has none
};

struct ImageOptions {
  ImageMode mode = ImageMode::unchanged;
  /// Larger images are refused before memory is taken for them. The default is Pillow's.
  std::int64_t max_pixels = 89'478'485;
  bool keep_16_bits = false;            ///< a PNG of 16 bits comes as i32, from 0 to 65535
  bool apply_exif_orientation = false;  ///< a JPEG is turned as its EXIF data ask
};

/// The image in a PNG or JPEG file; its first bytes say which. Palettes become colours and their transparency
/// alpha, 1, 2 and 4 bits become 8, and of 16 bits the upper 8 are kept (`keep_16_bits`: all). Where alpha is
/// not asked for it is left out, and the colours stay as they are. Colour profiles, gamma, and the
/// orientation in a photo's EXIF data (but for `apply_exif_orientation`) are ignored. Memory: the image
/// twice; a file's length must be in proportion to it. Of a JPEG that libjpeg-turbo warns of, nothing is
/// read: its data are damaged or not there.
///
/// Shapes: -> [C, H, W]. Dtypes: -> u8, or i32 of 16 bits. Throws: IoError, naming the file, when it cannot
/// be read, is of another kind, damaged, or a JPEG in CMYK, when the image is larger than `max_pixels`, and
/// when the build has no libpng or libjpeg-turbo. Source: torchvision.io.read_image, PIL.Image.convert.
[[nodiscard]] Tensor read_image(const std::string& path, const ImageOptions& options = {});

/// read_image for an encoded image in memory. Source: torchvision.io.decode_image.
[[nodiscard]] Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options = {});

/// An image as the bytes of a PNG file.
/// Shapes: [C, H, W] of 1 to 4 channels: gray, gray and alpha, RGB, RGBA. Dtypes: u8. Throws: ShapeError,
/// DTypeError; IoError when the build has no libpng. Source: torchvision.io.encode_png.
[[nodiscard]] std::vector<std::uint8_t> encode_png(const Tensor& image);

/// Writes encode_png's bytes into a file, all or nothing. Throws: what encode_png throws; IoError when the
/// file cannot be written. Source: torchvision.io.write_png.
void write_png(const std::string& path, const Tensor& image);

}  // namespace mezzo::data
