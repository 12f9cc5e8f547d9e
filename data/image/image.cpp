// Which codec, and pixels to planes.
#include "mezzo/data/image/image.h"

#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/image/codecs.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/file_kind.h"
#include "mezzo/ops/rearrange.h"

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

Pixels decode_pixels(std::span<const std::byte> bytes, const std::string& op, const ImageOptions& options) {
  if (options.max_pixels < 1)
    throw ValueError(op, "a .max_pixels of 1 or more", std::to_string(options.max_pixels), "");
  const detail::ImageLimits limits{.op = op,
                                   .max_pixels = static_cast<std::uint64_t>(options.max_pixels),
                                   .keep_16_bits = options.keep_16_bits};
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

/// Channel `c` of a pixel of samples of type T.
template <class T>
T sample_of(const std::uint8_t* pixel, std::size_t c) {
  T sample{};
  std::memcpy(&sample, pixel + c * sizeof(T), sizeof(T));
  return sample;
}

/// ITU-R 601-2 luma, as Pillow rounds it.
template <class T>
T luma(const std::uint8_t* rgb) {
  return static_cast<T>((sample_of<T>(rgb, 0) * 19595ULL + sample_of<T>(rgb, 1) * 38470ULL +
                         sample_of<T>(rgb, 2) * 7471ULL + 0x8000ULL) >>
                        16U);
}

/// Channel `c` of `channels` of a pixel that has other channels.
template <class T>
T channel_of(const std::uint8_t* pixel, std::size_t has, std::size_t c, std::size_t channels) {
  const bool is_colour = has >= 3, has_alpha = has % 2 == 0;
  if (channels % 2 == 0 && c + 1 == channels)
    return has_alpha ? sample_of<T>(pixel, has - 1) : std::numeric_limits<T>::max();
  if (channels >= 3) return sample_of<T>(pixel, is_colour ? c : 0);
  return is_colour ? luma<T>(pixel) : sample_of<T>(pixel, 0);
}

template <class T, class To>
void put_planes(const Pixels& pixels, std::size_t channels, To* to) {
  const std::size_t area = pixels.width * pixels.height;
  for (std::size_t c = 0; c < channels; ++c) {
    const std::uint8_t* pixel = pixels.bytes.data();
    for (std::size_t i = 0; i < area; ++i, pixel += pixels.channels * sizeof(T))
      *to++ = channels == pixels.channels ? sample_of<T>(pixel, c)
                                          : channel_of<T>(pixel, pixels.channels, c, channels);
  }
}

Tensor planes_of(const Pixels& pixels, ImageMode mode) {
  const std::size_t channels = channels_of(mode, pixels.channels);
  const bool is_wide = pixels.depth == 2;
  Tensor image = empty({static_cast<std::int64_t>(channels), static_cast<std::int64_t>(pixels.height),
                        static_cast<std::int64_t>(pixels.width)},
                       {.dtype = is_wide ? DType::i32 : DType::u8});
  if (is_wide)
    put_planes<std::uint16_t>(pixels, channels, static_cast<std::int32_t*>(image.impl().data()));
  else
    put_planes<std::uint8_t>(pixels, channels, static_cast<std::uint8_t*>(image.impl().data()));
  return image;
}

/// The unsigned number of `size` bytes at `at`, or 0 beyond the end.
std::size_t exif_number(std::span<const std::byte> bytes, std::size_t at, std::size_t size, bool big_endian) {
  std::size_t number = 0;
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  for (std::size_t i = 0; i < size; ++i)
    number = number * 256 + std::to_integer<std::size_t>(bytes[at + (big_endian ? i : size - 1 - i)]);
  return number;
}

/// The orientation in TIFF's directory, of which EXIF data consist; 1 where there is none.
std::size_t orientation_of(std::span<const std::byte> tiff) {
  const bool big_endian = begins_with(tiff, "MM");
  constexpr std::size_t kTag = 0x0112, kEntry = 12;
  const std::size_t begin = exif_number(tiff, 4, 4, big_endian);
  const std::size_t count = begin < 8 ? 0 : exif_number(tiff, begin, 2, big_endian);  // behind TIFF's header
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = begin + 2 + i * kEntry;
    if (exif_number(tiff, at, 2, big_endian) == kTag) return exif_number(tiff, at + 8, 2, big_endian);
  }
  return 1;
}

/// A JPEG's orientation, 1 to 8: the segments before its scan are looked through for EXIF data.
std::size_t jpeg_orientation(std::span<const std::byte> bytes) {
  constexpr std::size_t kApp1 = 0xFFE1, kScan = 0xFFDA;
  for (std::size_t at = 2; at < bytes.size();) {
    const std::size_t marker = exif_number(bytes, at, 2, true), size = exif_number(bytes, at + 2, 2, true);
    if (marker < 0xFF00 || marker == kScan || size < 2 || size > bytes.size() - at - 2) break;
    const std::span<const std::byte> segment = bytes.subspan(at + 4, size - 2);
    if (marker == kApp1 && begins_with(segment, std::string_view("Exif\0\0", 6))) {
      const std::size_t orientation = orientation_of(segment.subspan(6));
      return orientation >= 1 && orientation <= 8 ? orientation : 1;
    }
    at += 2 + size;
  }
  return 1;
}

/// The image as EXIF's orientation shows it: 5 to 8 with rows and columns exchanged, then mirrored.
Tensor turned(const Tensor& image, std::size_t orientation) {
  Dims mirrored;
  if (orientation == 3 || orientation == 4 || orientation >= 7) mirrored.push_back(1);
  if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7) mirrored.push_back(2);
  const Tensor upright = orientation >= 5 ? image.transpose(1, 2) : image;
  return (mirrored.empty() ? upright : flip(upright, mirrored)).contiguous();
}

Tensor image_of(std::span<const std::byte> bytes, const std::string& op, const ImageOptions& options) {
  const Tensor image = planes_of(decode_pixels(bytes, op, options), options.mode);
  const bool turns = options.apply_exif_orientation && begins_with(bytes, "\xFF\xD8\xFF");
  return turns ? turned(image, jpeg_orientation(bytes)) : image;
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
  return image_of(bytes, file.op(), options);
}

Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options) {
  return image_of(bytes, "decode_image", options);
}

std::vector<std::uint8_t> encode_png(const Tensor& image) { return png_of(image, "encode_png"); }

void write_png(const std::string& path, const Tensor& image) {
  const std::vector<std::uint8_t> bytes = png_of(image, "write_png '" + path + "'");
  io::AtomicFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

}  // namespace mezzo::data
