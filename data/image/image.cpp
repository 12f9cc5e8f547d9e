// Which codec, and pixels to planes.
#include "mezzo/data/image/image.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/image/codecs.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/file_kind.h"

namespace mezzo::data {

namespace detail {

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

}  // namespace detail

namespace {

using detail::Pixels;

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// The kind of file by its first bytes, for the message.
std::string image_kind(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "an empty file";
  if (begins_with(bytes, "GIF8")) return "a GIF image";
  if (begins_with(bytes, "BM")) return "a BMP image";
  if (begins_with(bytes, "RIFF")) return "a WebP image or another RIFF file";
  if (begins_with(bytes, "II*") || begins_with(bytes, "MM")) return "a TIFF image";
  return "other bytes";
}

Pixels decode_pixels(std::span<const std::byte> bytes, const std::string& op, std::int64_t max_pixels) {
  if (max_pixels < 1) throw ValueError(op, "a .max_pixels of 1 or more", std::to_string(max_pixels), "");
  const detail::ImageLimits limits{.op = op, .max_pixels = static_cast<std::uint64_t>(max_pixels)};
  if (begins_with(bytes, "\x89PNG\r\n\x1A\n")) return detail::decode_png(bytes, limits);
  if (begins_with(bytes, "\xFF\xD8\xFF")) return detail::decode_jpeg(bytes, limits);
  io::detail::refuse_other_file(op, "a PNG or JPEG image", bytes);
  throw IoError(op, "a PNG or JPEG image", image_kind(bytes), "convert it");
}

std::size_t channels_of(ImageMode mode, std::size_t channels) {
  if (mode == ImageMode::gray) return 1;
  if (mode == ImageMode::rgb) return 3;
  return mode == ImageMode::rgba ? 4 : channels;
}

/// ITU-R 601-2 luma, as Pillow rounds it.
std::uint8_t luma(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
}

/// Channel `c` of `channels` of a pixel that has other channels.
std::uint8_t channel_of(const std::uint8_t* pixel, std::size_t has, std::size_t c, std::size_t channels) {
  const bool is_colour = has >= 3, has_alpha = has % 2 == 0;
  if (channels % 2 == 0 && c + 1 == channels) return has_alpha ? pixel[has - 1] : 255;
  if (channels >= 3) return pixel[is_colour ? c : 0];
  return is_colour ? luma(pixel) : pixel[0];
}

Tensor planes_of(const Pixels& pixels, ImageMode mode) {
  const std::size_t channels = channels_of(mode, pixels.channels), area = pixels.width * pixels.height;
  Tensor image = empty({static_cast<std::int64_t>(channels), static_cast<std::int64_t>(pixels.height),
                        static_cast<std::int64_t>(pixels.width)},
                       {.dtype = DType::u8});
  auto* to = static_cast<std::uint8_t*>(image.impl().data());
  for (std::size_t c = 0; c < channels; ++c) {
    const std::uint8_t* pixel = pixels.bytes.data();
    for (std::size_t i = 0; i < area; ++i, pixel += pixels.channels)
      *to++ = channels == pixels.channels ? pixel[c] : channel_of(pixel, pixels.channels, c, channels);
  }
  return image;
}

std::vector<std::uint8_t> png_of(const Tensor& image, const std::string& op) {
  const bool fits = image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= 4 && image.size(1) >= 1 &&
                    image.size(2) >= 1 && image.size(1) <= 0x7FFFFFFF && image.size(2) <= 0x7FFFFFFF;
  if (!fits) {
    throw ShapeError(op, "an image [C, H, W] of 1 to 4 channels", to_string(image.shape()),
                     image.dim() == 4 ? "write the images of the batch one by one" : "");
  }
  if (image.dtype() != DType::u8) {
    throw DTypeError(op, "an image of u8", std::string(info(image.dtype()).name),
                     "scale it to 0 to 255 and convert it with to(DType::u8)");
  }
  const Tensor host = image.detach().cpu().contiguous();
  Pixels pixels{.width = static_cast<std::size_t>(host.size(2)),
                .height = static_cast<std::size_t>(host.size(1)),
                .channels = static_cast<std::size_t>(host.size(0))};
  const std::span<const std::uint8_t> planes = host.data<std::uint8_t>();
  const std::size_t area = pixels.width * pixels.height;
  pixels.bytes.resize(planes.size());
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t c = 0; c < pixels.channels; ++c)
      pixels.bytes[i * pixels.channels + c] = planes[c * area + i];
  }
  return detail::encode_png(pixels, op);
}

}  // namespace

Tensor read_image(const std::string& path, const ImageOptions& options) {
  io::InputFile file(path, "read_image");
  std::vector<std::byte> bytes(file.size());
  file.read(bytes);
  return planes_of(decode_pixels(bytes, file.op(), options.max_pixels), options.mode);
}

Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options) {
  return planes_of(decode_pixels(bytes, "decode_image", options.max_pixels), options.mode);
}

std::vector<std::uint8_t> encode_png(const Tensor& image) { return png_of(image, "encode_png"); }

void write_png(const std::string& path, const Tensor& image) {
  const std::vector<std::uint8_t> bytes = png_of(image, "write_png '" + path + "'");
  io::AtomicFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

}  // namespace mezzo::data
