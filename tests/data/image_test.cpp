// Images that make.py in files/images wrote, against what Pillow reads in them; damaged files; PNG written
// and read again. In builds without the libraries: that they say so.
#include "mezzo/data/image/image.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/json.h"
#include "mezzo/tests/data/image_support.h"
#include "mezzo/tests/data/temporary_folder.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::data {
namespace {

using test::message_of;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The elements as hexadecimal digits.
std::string hex(const Tensor& image) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t value : image.data<std::uint8_t>()) {
    text.push_back(kDigits[value / 16]);
    text.push_back(kDigits[value % 16]);
  }
  return text;
}

class Images : public TemporaryFolder {
 protected:
  void SetUp() override {
    if (!have_png() || !have_jpeg()) GTEST_SKIP() << "a build without libpng or libjpeg-turbo";
  }
  std::string refused(const std::string& bytes, const ImageOptions& options = {}) {
    const std::string message =
        message_of<IoError>([&] { return read_image(write("image", bytes), options); });
    const std::string start = "read_image '" + path("image") + "': ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(start.size());
  }
};

TEST_F(Images, AreWhatPillowReads) {
  const Value expected = io::read_json_file(image_file("expected.json"));
  ASSERT_GE(expected.size(), 20U);
  const std::pair<ImageMode, const char*> modes[]{{ImageMode::unchanged, "unchanged"},
                                                  {ImageMode::gray, "gray"},
                                                  {ImageMode::rgb, "rgb"},
                                                  {ImageMode::rgba, "rgba"}};
  for (const auto& [name, entry] : expected.as_map()) {
    for (const auto& [mode, mode_name] : modes) {
      const Tensor image = read_image(image_file(name), {.mode = mode});
      const Value& wanted = entry.at(mode_name);
      ASSERT_EQ(image.dtype(), DType::u8);
      ASSERT_EQ(image.shape(), (Shape{wanted.at("channels").as_int(), entry.at("size").at(0U).as_int(),
                                      entry.at("size").at(1U).as_int()}))
          << name << " " << mode_name;
      EXPECT_EQ(hex(image), wanted.at("values").as_string()) << name << " " << mode_name;
    }
  }
}

TEST_F(Images, SixteenBitsAreKeptWhereAskedFor) {
  // The samples that make.py writes: noise(x, y, c, 65535).
  const auto noise = [](std::int64_t x, std::int64_t y, std::int64_t c) {
    return static_cast<std::int32_t>((x * 73 + y * 151 + c * 97 + x * y * 11) % 65536);
  };
  const ImageOptions all{.keep_16_bits = true};
  for (const auto& [name, channels] : {std::pair("gray16.png", 1),
                                       {"gray16i.png", 1},
                                       {"la16.png", 2},
                                       {"rgb16.png", 3},
                                       {"rgba16.png", 4}}) {
    const Tensor image = read_image(image_file(name), all);
    ASSERT_EQ(image.dtype(), DType::i32);
    ASSERT_EQ(image.size(0), channels) << name;
    const auto values = image.data<std::int32_t>();
    std::size_t i = 0;
    for (std::int64_t c = 0; c < image.size(0); ++c) {
      for (std::int64_t y = 0; y < image.size(1); ++y) {
        for (std::int64_t x = 0; x < image.size(2); ++x) ASSERT_EQ(values[i++], noise(x, y, c)) << name;
      }
    }
  }
  EXPECT_EQ(read_image(image_file("gray8.png"), all).dtype(), DType::u8);
  const Tensor rgba = read_image(image_file("gray16.png"), {.mode = ImageMode::rgba, .keep_16_bits = true});
  EXPECT_EQ(rgba.select(0, 2).select(0, 3).to_vector<int>()[2], noise(2, 3, 0));
  EXPECT_EQ(rgba.select(0, 3).to_vector<int>()[0], 65535);
  const Tensor gray = read_image(image_file("rgb16.png"), {.mode = ImageMode::gray, .keep_16_bits = true});
  EXPECT_NEAR(gray.select(0, 0).select(0, 4).to_vector<double>()[8],
              0.299 * noise(8, 4, 0) + 0.587 * noise(8, 4, 1) + 0.114 * noise(8, 4, 2), 0.6);
}

TEST_F(Images, AreTurnedAsExifSaysWhereAskedFor) {
  const std::string turned = content(image_file("turned.jpg"));
  const Tensor plain = read_image(image_file("turned.jpg"));
  const std::size_t tiff = turned.find(std::string("Exif\0\0", 6)) + 6;
  ASSERT_TRUE(turned[tiff] == 'M' || turned[tiff] == 'I');
  const bool big = turned[tiff] == 'M';
  const std::string tag = big ? std::string("\x01\x12\0\x03", 4) : std::string("\x12\x01\x03\0", 4);
  const std::size_t value = turned.find(tag) + (big ? 9 : 8);
  ASSERT_EQ(turned[value], 6);
  const std::int64_t height = plain.size(1), width = plain.size(2);
  for (int orientation = 0; orientation <= 9; ++orientation) {
    std::string bytes = turned;
    bytes[value] = static_cast<char>(orientation);
    const Tensor image = read_image(write("image", bytes), {.apply_exif_orientation = true});
    EXPECT_EQ(hex(read_image(path("image"))), hex(plain)) << "without the option";
    const bool exchanged = orientation >= 5 && orientation <= 8;
    ASSERT_EQ(image.shape(), exchanged ? (Shape{3, width, height}) : plain.shape()) << orientation;
    // EXIF 2.3, 4.6.4: where the 0th row and the 0th column of the file are in the picture.
    const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    const bool bottom = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    const auto from = plain.data<std::uint8_t>(), to = image.data<std::uint8_t>();
    for (std::int64_t i = 0; i < image.numel(); ++i) {
      const std::int64_t rows = image.size(1), columns = image.size(2);
      const std::int64_t c = i / (rows * columns), y = i / columns % rows, x = i % columns;
      const std::int64_t v = bottom ? rows - 1 - y : y, h = right ? columns - 1 - x : x;
      const std::int64_t row = exchanged ? h : v, column = exchanged ? v : h;
      ASSERT_EQ(to[static_cast<std::size_t>(i)],
                from[static_cast<std::size_t>((c * height + row) * width + column)])
          << orientation;
    }
  }
  for (std::size_t size = tiff - 12; size < value + 4;
       ++size) {  // a segment cut short: no orientation, no harm
    std::string bytes = turned.substr(0, size) + turned.substr(size + 1);
    try {
      static_cast<void>(read_image(write("image", bytes), {.apply_exif_orientation = true}));
    } catch (const IoError&) {
    }
  }
}

TEST_F(Images, FromMemory) {
  const std::string bytes = content(image_file("rgb8.png"));
  EXPECT_EQ(hex(decode_image(std::as_bytes(std::span(bytes)))), hex(read_image(image_file("rgb8.png"))));
  const std::string none = "GIF89a";
  EXPECT_EQ(message_of<IoError>([&] { return decode_image(std::as_bytes(std::span(none))); }),
            "decode_image: expected a PNG or JPEG image, got a GIF image; convert it");
}

TEST_F(Images, TheNameSaysNothing) {
  const std::string file = write("photo.jpg", content(image_file("gray8.png")));
  EXPECT_EQ(hex(read_image(file)), hex(read_image(image_file("gray8.png"))));
}

TEST_F(Images, TextsAndProfilesAreNotLookedAt) {
  EXPECT_EQ(hex(read_image(image_file("bomb.png"))), "000102010203");
}

TEST_F(Images, FlatImagesArePackedTightly) {
  // 500,000 bytes in 566, as tight as deflate packs them: the limit must not refuse it.
  const Tensor image = read_image(image_file("flat.png"));
  EXPECT_EQ(image.shape(), (Shape{1, 2000, 2000}));
  for (const std::uint8_t value : image.data<std::uint8_t>()) ASSERT_EQ(value, 0);
}

TEST_F(Images, TooManyPixelsAreRefused) {
  const std::string bytes = content(image_file("rgb8.png"));  // 9 x 5
  EXPECT_EQ(refused(bytes, {.max_pixels = 44}),
            "expected an image of at most 44 pixels, got 9 x 5; raise .max_pixels where the file is trusted");
  EXPECT_EQ(read_image(write("image", bytes), {.max_pixels = 45}).numel(), 135);
  EXPECT_EQ(
      refused(content(image_file("gray.jpg")), {.max_pixels = 246}),
      "expected an image of at most 246 pixels, got 19 x 13; raise .max_pixels where the file is trusted");
  EXPECT_THROW(static_cast<void>(read_image(path("image"), {.max_pixels = 0})), ValueError);
}

TEST_F(Images, SizesThatTheFileCannotHoldAreRefused) {
  // The header of a JPEG says 8192 x 8192: no memory is taken for it.
  std::string jpeg = content(image_file("gray.jpg"));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x20\x00\x20\x00", 4));
  EXPECT_EQ(refused(jpeg), "expected at least 131072 bytes for an image of this size, got " +
                               std::to_string(jpeg.size()) + " bytes; fetch the file again");
  // That of a PNG, with the checksum that belongs to it: 20000 x 4000 gray.
  std::string png = content(image_file("gray8.png"));
  png.replace(16, 8, std::string("\x00\x00\x4E\x20\x00\x00\x0F\xA0", 8));
  png.replace(29, 4, crc_bytes(std::string_view(png).substr(12, 17)));
  EXPECT_EQ(refused(png), "expected at least 77519 bytes for an image of this size, got " +
                              std::to_string(png.size()) + " bytes; fetch the file again");
}

TEST_F(Images, OtherFilesAreRefused) {
  EXPECT_EQ(refused(""), "expected a PNG or JPEG image, got an empty file; convert it");
  EXPECT_EQ(refused("BM1234"), "expected a PNG or JPEG image, got a BMP image; convert it");
  EXPECT_EQ(refused("hello"), "expected a PNG or JPEG image, got other bytes; convert it");
  EXPECT_EQ(refused(content(image_file("cmyk.jpg"))),
            "expected a JPEG in gray or RGB, got one in CMYK; convert it to RGB");
  EXPECT_EQ(
      message_of<IoError>([&] { return read_image(path("none")); }),
      "read_image '" + path("none") +
          "': expected a readable file, got No such file or directory; check the path and its permissions");
}

TEST_F(Images, FilesThatEndEarlyAreRefused) {
  for (const char* name : {"rgb8.png", "gray16i.png", "palette4t.png", "rgb420.jpg", "progressive.jpg"}) {
    const std::string bytes = content(image_file(name));
    for (std::size_t size = 9; size + 3 < bytes.size(); size += bytes.size() / 17 + 1) {
      const std::string message = refused(bytes.substr(0, size));
      EXPECT_NE(message.find("expected"), std::string::npos);
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

TEST_F(Images, DamagedPngsAreRefused) {
  // Each chunk has a checksum; the bits of all that matters are covered by one.
  const std::string bytes = content(image_file("rgb8.png"));
  for (std::size_t at = 8; at + 12 < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_THROW(static_cast<void>(read_image(write("image", damaged))), IoError) << at;
  }
}

TEST_F(Images, WhatIsWrittenIsRead) {
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    const Tensor image = empty({channels, 5, 7}, {.dtype = DType::u8});
    const auto values = image.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 37 % 256);
    write_png(path("a.png"), image);
    const Tensor back = read_image(path("a.png"));
    EXPECT_EQ(back.shape(), image.shape());
    EXPECT_EQ(hex(back), hex(image));
    // Not contiguous.
    write_png(path("a.png"), image.transpose(1, 2));
    const std::vector<std::uint8_t> bytes = encode_png(image);
    EXPECT_EQ(hex(decode_image(std::as_bytes(std::span(bytes)))), hex(image));
    EXPECT_EQ(hex(read_image(path("a.png"))), hex(image.transpose(1, 2).contiguous()));
  }
}

TEST_F(Images, WhatCannotBeWritten) {
  const auto op = "write_png '" + path("a.png") + "': ";
  const auto write_image = [&](const Tensor& image) {
    write_png(path("a.png"), image);
    return 0;
  };
  EXPECT_EQ(message_of<ShapeError>([&] {
              return write_image(zeros({2, 3}, {.dtype = DType::u8}));
            }),
            op + "expected an image [C, H, W] of 1 to 4 channels, got [2, 3]");
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        return write_image(zeros({1, 3, 2, 2}, {.dtype = DType::u8}));
      }),
      op + "expected an image [C, H, W] of 1 to 4 channels, got [1, 3, 2, 2]; write the images of the batch "
           "one by one");
  EXPECT_EQ(message_of<DTypeError>([&] {
              return write_image(zeros({3, 2, 2}));
            }),
            op + "expected an image of u8, got f32; scale it to 0 to 255 and convert it with to(DType::u8)");
  EXPECT_THROW(write_image(zeros({5, 2, 2}, {.dtype = DType::u8})), ShapeError);
  EXPECT_THROW(write_image(zeros({1, 0, 2}, {.dtype = DType::u8})), ShapeError);
  EXPECT_FALSE(std::filesystem::exists(path("a.png")));
}

TEST(ImagesWithoutLibraries, SayWhatToInstall) {
  if (!have_png()) {
    EXPECT_EQ(
        message_of<IoError>([] { return read_image(image_file("gray8.png")); }),
        "read_image '" + image_file("gray8.png") +
            "': expected a build with libpng, got one without; install libpng-dev and build mezzo again");
    EXPECT_THROW(write_png(::testing::TempDir() + "mezzo.png", zeros({1, 1, 1}, {.dtype = DType::u8})),
                 IoError);
  }
  if (!have_jpeg()) {
    EXPECT_EQ(
        message_of<IoError>([] { return read_image(image_file("gray.jpg")); }),
        "read_image '" + image_file("gray.jpg") +
            "': expected a build with libjpeg-turbo, got one without; install libturbojpeg0-dev and build "
            "mezzo again");
  }
}

TEST(Codecs, AreThereWhereCMakeHasFoundThem) {
  const char* const found = std::getenv("MEZZO_FOUND_CODECS");
  if (found == nullptr) GTEST_SKIP() << "run by the test data.codecs alone";
  EXPECT_EQ(std::string(have_png() ? "png " : "") + (have_jpeg() ? "jpeg " : ""), found);
}

}  // namespace
}  // namespace mezzo::data
