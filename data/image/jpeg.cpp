// TurboJPEG's interface, which returns errors and has no longjmp.
#include "mezzo/data/image/codecs.h"

#include "mezzo/core/error.h"

#if MEZZO_HAVE_JPEG
#include <turbojpeg.h>

#include <memory>
#endif

namespace mezzo::data::detail {

#if MEZZO_HAVE_JPEG

namespace {

struct JpegCloser {
  void operator()(void* handle) const { tjDestroy(handle); }
};

[[noreturn]] void refuse_jpeg(const std::string& op, const std::string& got) {
  throw IoError(op, "a sound JPEG image", got, "fetch the file again");
}

}  // namespace

Pixels decode_jpeg(std::span<const std::byte> bytes, const ImageLimits& limits) {
  const std::unique_ptr<void, JpegCloser> decoder(tjInitDecompress());
  if (decoder == nullptr) refuse_jpeg(limits.op, "no memory for libjpeg-turbo");
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &sampling, &colours) != 0)
    refuse_jpeg(limits.op, tjGetErrorStr2(decoder.get()));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    throw IoError(limits.op, "a JPEG in gray or RGB", "one in CMYK", "convert it to RGB");
  Pixels pixels{.width = static_cast<std::size_t>(width), .height = static_cast<std::size_t>(height)};
  check_pixels(limits, pixels.width, pixels.height);
  // Each block of 64 pixels takes a bit at the least.
  check_encoded_size(limits, bytes.size(), pixels.width * pixels.height / 512);
  const bool is_gray = colours == TJCS_GRAY;
  pixels.channels = is_gray ? 1 : 3;
  pixels.bytes.resize(pixels.width * pixels.height * pixels.channels);
  // A warning is about data that are damaged or not there. Scans are limited, as each takes the time of a
  // whole image, whatever its length.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), data, bytes.size(), pixels.bytes.data(), width, 0, height,
                    is_gray ? TJPF_GRAY : TJPF_RGB, kFlags) != 0)
    refuse_jpeg(limits.op, tjGetErrorStr2(decoder.get()));
  return pixels;
}

#else

Pixels decode_jpeg(std::span<const std::byte> /*bytes*/, const ImageLimits& limits) {
  throw IoError(limits.op, "a build with libjpeg-turbo", "one without",
                "install libturbojpeg0-dev and build mezzo again");
}

#endif

}  // namespace mezzo::data::detail
