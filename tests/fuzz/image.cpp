// PNG and JPEG: what can be read is written as PNG and read again equal. A PNG is tried as it is and with its
// checksums put right, as few mutations come past these.
#include <algorithm>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/image/codecs.h"
#include "mezzo/data/image/image.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

constexpr data::ImageOptions kSmallImages{.max_pixels = 1 << 16};

std::uint32_t png_crc(const std::uint8_t* bytes, std::size_t size) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (std::size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? 0xEDB88320U ^ (crc >> 1U) : crc >> 1U;
  }
  return ~crc;
}

/// Puts the checksums of all chunks right.
void repair_png(std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length * 256 + bytes[at + i];
    if (length > bytes.size() - at - 12) return;
    const std::uint32_t crc = png_crc(&bytes[at + 4], length + 4);
    for (std::size_t i = 0; i < 4; ++i)
      bytes[at + 8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    at += length + 12;
  }
}

void try_image(const std::vector<std::uint8_t>& bytes) {
  Tensor image;
  try {
    const Tensor all = data::decode_image(
        std::as_bytes(std::span(bytes)),
        {.max_pixels = kSmallImages.max_pixels, .keep_16_bits = true, .apply_exif_orientation = true});
    image = data::decode_image(std::as_bytes(std::span(bytes)), kSmallImages);
    require(all.numel() == image.numel(), "all bits and a turned image are as many values");
  } catch (const IoError& error) {
    require(std::string(error.what()).size() < 1000, "a message is short");
    return;
  }
  require(image.dim() == 3 && image.size(0) >= 1 && image.size(0) <= 4, "an image has 1 to 4 channels");
  require(image.size(1) * image.size(2) <= kSmallImages.max_pixels, "an image is not larger than asked for");
  const auto channels = static_cast<std::size_t>(image.size(0));
  data::detail::Pixels pixels{.width = static_cast<std::size_t>(image.size(2)),
                              .height = static_cast<std::size_t>(image.size(1)),
                              .channels = channels};
  const std::span<const std::uint8_t> planes = image.data<std::uint8_t>();
  const std::size_t area = pixels.width * pixels.height;
  pixels.bytes.resize(planes.size());
  for (std::size_t i = 0; i < planes.size(); ++i) pixels.bytes[i % area * channels + i / area] = planes[i];
  try {
    const std::vector<std::uint8_t> png = data::detail::encode_png(pixels, "fuzz");
    const Tensor again = data::decode_image(std::as_bytes(std::span(png)));
    const std::span<const std::uint8_t> values = again.data<std::uint8_t>();
    require(again.shape() == image.shape(), "an image comes back in its size");
    require(std::equal(planes.begin(), planes.end(), values.begin(), values.end()), "an image comes back");
  } catch (const IoError& error) {
    require(error.expected() == "a build with libpng", "an image that was read can be written");
  }
}

}  // namespace

int fuzz_image(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes(data, data + size);
  try_image(bytes);
  if (size > 8 && bytes[0] == 0x89) {
    repair_png(bytes);
    try_image(bytes);
  }
  return 0;
}

}  // namespace mezzo::fuzz
