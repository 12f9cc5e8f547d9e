// libpng reports errors by longjmp, which must not leave a function that has objects to destroy: the
// functions that set the place to jump to (read_*, write_*) have none.
#include "mezzo/data/image/codecs.h"

#include "mezzo/core/error.h"
#include "mezzo/core/scope.h"

#if MEZZO_HAVE_PNG
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#endif

namespace mezzo::data::detail {

#if MEZZO_HAVE_PNG

namespace {

using PngMessage = std::array<char, 128>;

/// The state of libpng's callbacks.
struct PngIo {
  std::span<const std::byte> input = {};
  std::vector<std::uint8_t>* output = nullptr;
  PngMessage message{};
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp text) {
  auto* const io = static_cast<PngIo*>(png_get_error_ptr(png));
  std::strncpy(io->message.data(), text, io->message.size() - 1);
  png_longjmp(png, 1);
}

void on_png_warning(png_structp /*png*/, png_const_charp /*text*/) {}

void give_png_bytes(png_structp png, png_bytep to, png_size_t count) {
  auto* const io = static_cast<PngIo*>(png_get_io_ptr(png));
  if (io->input.size() < count) png_error(png, "the file ends early");
  std::memcpy(to, io->input.data(), count);
  io->input = io->input.subspan(count);
}

void take_png_bytes(png_structp png, png_bytep from, png_size_t count) {
  auto* const io = static_cast<PngIo*>(png_get_io_ptr(png));
  bool good = true;
  try {
    io->output->insert(io->output->end(), from, from + count);
  } catch (...) {  // which must not pass through libpng
    good = false;
  }
  if (!good) png_error(png, "no memory");
}

void flush_png(png_structp /*png*/) {}

/// Base of reading and writing.
class PngStruct : mezzo::detail::NoCopy {
 public:
  PngStruct() = default;
  [[nodiscard]] std::string message() const {
    return info_ == nullptr ? "no memory for libpng" : std::string(io_.message.data());
  }

 protected:
  PngIo io_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

class PngReader final : public PngStruct {
 public:
  explicit PngReader(std::span<const std::byte> bytes) {
    io_.input = bytes;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &io_, on_png_error, on_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  /// Up to the first row. False: message() says why.
  [[nodiscard]] bool read_header() {
    if (info_ == nullptr) return false;
    // Chunks that are not needed are not unpacked: texts and profiles may be decompression bombs.
    static constexpr std::array<png_byte, 40> kPassedOver{
        'i', 'C', 'C', 'P', 0, 'z', 'T', 'X', 't', 0, 'i', 'T', 'X', 't', 0, 't', 'E', 'X', 't', 0,
        's', 'P', 'L', 'T', 0, 'e', 'X', 'I', 'f', 0, 'h', 'I', 'S', 'T', 0, 't', 'I', 'M', 'E', 0};
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &io_, give_png_bytes);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kPassedOver.data(),
                                static_cast<int>(kPassedOver.size() / 5));
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(png_, info_);
    return true;
  }
  [[nodiscard]] std::size_t width() const { return png_get_image_width(png_, info_); }
  [[nodiscard]] std::size_t height() const { return png_get_image_height(png_, info_); }
  /// Bytes of a row and channels of a pixel: of the file, and of what is made of it after expand().
  [[nodiscard]] std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  [[nodiscard]] std::size_t channels() const { return png_get_channels(png_, info_); }

  /// Bytes of a channel, after expand().
  [[nodiscard]] std::size_t depth() const { return png_get_bit_depth(png_, info_) == 16 ? 2 : 1; }

  /// Asks for 8 bits per channel, or for all 16 little-endian, and no palette.
  [[nodiscard]] bool expand(bool keep_16_bits) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    if (keep_16_bits)
      png_set_swap(png_);
    else
      png_set_strip_16(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  [[nodiscard]] bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }
};

class PngWriter final : public PngStruct {
 public:
  explicit PngWriter(std::vector<std::uint8_t>& output) {
    io_.output = &output;
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &io_, on_png_error, on_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }

  [[nodiscard]] bool write(std::size_t width, std::size_t height, std::size_t channels, png_bytepp rows) {
    static constexpr std::array<int, 4> kTypes{PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                               PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_write_fn(png_, &io_, take_png_bytes, flush_png);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
                 kTypes[channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    png_write_image(png_, rows);
    png_write_end(png_, info_);
    return true;
  }
};

[[noreturn]] void refuse_png(const std::string& op, const std::string& message) {
  throw IoError(op, "a sound PNG image", message, "fetch the file again");
}

/// Where each row of the pixels begins.
std::vector<png_bytep> png_rows(const Pixels& pixels) {
  std::vector<png_bytep> rows(pixels.height);
  auto* row = const_cast<png_bytep>(pixels.bytes.data());  // libpng asks for it also where it reads only
  for (png_bytep& begin : rows) {
    begin = row;
    row += pixels.width * pixels.channels * pixels.depth;
  }
  return rows;
}

}  // namespace

Pixels decode_png(std::span<const std::byte> bytes, const ImageLimits& limits) {
  PngReader reader(bytes);
  if (!reader.read_header()) refuse_png(limits.op, reader.message());
  Pixels pixels{.width = reader.width(), .height = reader.height()};
  check_pixels(limits, pixels.width, pixels.height);
  // Deflate packs 1032 bytes into one at the most.
  check_encoded_size(limits, bytes.size(), reader.row_bytes() * pixels.height / 1032);
  if (!reader.expand(limits.keep_16_bits)) refuse_png(limits.op, reader.message());
  pixels.channels = reader.channels();
  pixels.depth = reader.depth();
  if (reader.row_bytes() != pixels.width * pixels.channels * pixels.depth)
    refuse_png(limits.op, "rows of another length");
  pixels.bytes.resize(reader.row_bytes() * pixels.height);
  std::vector<png_bytep> rows = png_rows(pixels);
  if (!reader.read_rows(rows.data())) refuse_png(limits.op, reader.message());
  return pixels;
}

std::vector<std::uint8_t> encode_png(const Pixels& pixels, const std::string& op) {
  std::vector<std::uint8_t> bytes;
  PngWriter writer(bytes);
  std::vector<png_bytep> rows = png_rows(pixels);
  if (!writer.write(pixels.width, pixels.height, pixels.channels, rows.data()))
    throw IoError(op, "an image that libpng can write", writer.message(), "");
  return bytes;
}

#else

namespace {

[[noreturn]] void refuse_png_without_library(const std::string& op) {
  throw IoError(op, "a build with libpng", "one without", "install libpng-dev and build mezzo again");
}

}  // namespace

Pixels decode_png(std::span<const std::byte> /*bytes*/, const ImageLimits& limits) {
  refuse_png_without_library(limits.op);
}

std::vector<std::uint8_t> encode_png(const Pixels& /*pixels*/, const std::string& op) {
  refuse_png_without_library(op);
}

#endif

}  // namespace mezzo::data::detail
