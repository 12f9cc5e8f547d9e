// zlib behind io/detail/deflate.h. Its return codes end here, as errors with the place in the packed bytes.
#include "mezzo/io/detail/deflate.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "mezzo/core/error.h"

#ifdef MEZZO_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

namespace mezzo::io::detail {

namespace {

constexpr std::byte kGzipMagic[2] = {std::byte{0x1F}, std::byte{0x8B}};

#ifdef MEZZO_HAVE_ZLIB

constexpr std::size_t kPackedBlock = 65536;
/// A call of zlib moves at most this much, as it counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30U;
constexpr int kMaxWindowBits = 15, kGzipFlag = 16;

int window_bits(DeflateFrame frame) {
  return frame == DeflateFrame::gzip ? kMaxWindowBits + kGzipFlag : -kMaxWindowBits;
}

const Bytef* zlib_bytes(const std::byte* bytes) { return reinterpret_cast<const Bytef*>(bytes); }

#else

[[noreturn]] void refuse_without_zlib(const std::string& op) {
  throw IoError(op, "a build with zlib", "compressed data and a build without it",
                "install zlib1g-dev and build mezzo again, or uncompress the file (gunzip, unzip)");
}

#endif

}  // namespace

bool has_deflate() noexcept {
#ifdef MEZZO_HAVE_ZLIB
  return true;
#else
  return false;
#endif
}

bool is_gzip(std::span<const std::byte> begin) noexcept {
  return begin.size() >= 2 && std::equal(kGzipMagic, kGzipMagic + 2, begin.begin());
}

#ifdef MEZZO_HAVE_ZLIB

struct InflateSource::State : mezzo::detail::NoCopy {
  State(std::unique_ptr<ByteSource> source, DeflateFrame frame_in, std::uint64_t limit_in)
      : packed(std::move(source)), frame(frame_in), limit(limit_in), block(kPackedBlock) {
    if (::inflateInit2(&stream, window_bits(frame)) != Z_OK) throw std::bad_alloc();
  }
  ~State() { ::inflateEnd(&stream); }

  /// False at the end of the packed bytes.
  bool refill() {
    if (stream.avail_in > 0) return true;
    const std::size_t count = packed->read_some(block);
    stream.next_in = zlib_bytes(block.data());
    stream.avail_in = static_cast<uInt>(count);
    taken += count;
    return count > 0;
  }

  /// Where zlib stands.
  [[nodiscard]] std::string place() const {
    return " at byte " + std::to_string(taken - stream.avail_in) + " of the compressed data";
  }

  [[noreturn]] void refuse(const std::string& got) const {
    throw IoError(packed->op(), "compressed data that can be unpacked", got, "fetch or write the file again");
  }

  /// Behind the end of a member: goes on to the next, if there is one.
  void end_member() {
    if (!refill()) {
      is_done = true;
      return;
    }
    if (frame == DeflateFrame::raw) refuse("more bytes behind their end" + place());
    // Members may be padded with zeros, as blocks of tapes are; Python's gzip passes over them, too.
    do {
      while (stream.avail_in > 0 && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
      }
    } while (stream.avail_in == 0 && refill());
    is_done = stream.avail_in == 0;
    if (is_done) return;
    if (::inflateReset(&stream) != Z_OK) throw std::bad_alloc();
    is_first = false;
  }

  /// One call of zlib with room for at least a byte. Returns how many bytes it gave.
  std::size_t step(std::span<std::byte> out) {
    const bool has_input = refill();
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(std::min(out.size(), kMostAtOnce));
    const uInt room = stream.avail_out;
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t given = room - stream.avail_out;
    if (code == Z_STREAM_END) {
      end_member();
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      const std::string reason = stream.msg != nullptr ? stream.msg : "another kind of data";
      refuse((is_first ? "" : "behind a member of it ") + reason + place());
    } else if (!has_input && given == 0) {
      refuse("its end too early" + place());
    }
    return given;
  }

  std::unique_ptr<ByteSource> packed;
  DeflateFrame frame;
  std::uint64_t limit;
  std::vector<std::byte> block;
  z_stream stream{};
  std::uint64_t taken = 0;  ///< packed bytes that zlib was given
  std::uint64_t total = 0;  ///< bytes unpacked
  bool is_first = true, is_done = false;
};

InflateSource::InflateSource(std::unique_ptr<ByteSource> packed, DeflateFrame frame, std::uint64_t limit)
    : ByteSource(packed->op()), state_(std::make_unique<State>(std::move(packed), frame, limit)) {}

std::size_t InflateSource::read_some(std::span<std::byte> out) {
  if (out.empty()) return 0;
  State& state = *state_;
  std::byte beyond{};
  while (!state.is_done) {
    const std::uint64_t rest = state.limit - state.total;
    const std::span<std::byte> room =
        rest == 0 ? std::span(&beyond, 1)
                  : out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), rest)));
    const std::size_t given = state.step(room);
    if (given == 0) continue;
    if (rest == 0) {
      throw IoError(op(), "at most " + std::to_string(state.limit) + " bytes of unpacked data", "more",
                    "fetch or write the file again");
    }
    state.total += given;
    return given;
  }
  return 0;
}

std::vector<std::byte> deflated(const std::string& /*op*/, DeflateFrame frame,
                                std::span<const std::span<const std::byte>> parts) {
  constexpr int kUsualMemory = 8;
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits(frame), kUsualMemory,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ended(&stream, ::deflateEnd);
  std::vector<std::byte> block(kPackedBlock), packed;
  // Gives zlib all of stream.next_in, and takes what it has.
  const auto run = [&](int flush) {
    int code = Z_OK;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(block.data());
      stream.avail_out = static_cast<uInt>(block.size());
      code = ::deflate(&stream, flush);
      packed.insert(packed.end(), block.data(), block.data() + (block.size() - stream.avail_out));
    } while (stream.avail_out == 0 && code != Z_STREAM_END);
  };
  for (std::span<const std::byte> bytes : parts) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kMostAtOnce);
      stream.next_in = zlib_bytes(bytes.data());
      stream.avail_in = static_cast<uInt>(count);
      run(Z_NO_FLUSH);
      bytes = bytes.subspan(count);
    }
  }
  run(Z_FINISH);
  return packed;
}

#else

struct InflateSource::State {};
InflateSource::InflateSource(std::unique_ptr<ByteSource> packed, DeflateFrame /*frame*/,
                             std::uint64_t /*limit*/)
    : ByteSource(packed->op()) {
  refuse_without_zlib(op());
}

std::size_t InflateSource::read_some(std::span<std::byte> /*out*/) { return 0; }
std::vector<std::byte> deflated(const std::string& op, DeflateFrame /*frame*/,
                                std::span<const std::span<const std::byte>> /*parts*/) {
  refuse_without_zlib(op);
}

#endif

InflateSource::~InflateSource() = default;
UnpackedFile::UnpackedFile(const std::string& path, const std::string& op, std::uint64_t limit)
    : UnpackedFile(std::make_unique<InputFile>(path, op), limit) {}

UnpackedFile::UnpackedFile(std::unique_ptr<InputFile> file, std::uint64_t limit)
    : ByteSource(file->op()), file_(std::move(file)) {
  std::array<std::byte, 2> begin{};
  if (file_->size() >= begin.size()) file_->read(begin);
  is_packed_ = is_gzip(begin);
  source_ = std::make_unique<FileRange>(*file_, 0, file_->size());
  if (is_packed_) source_ = std::make_unique<InflateSource>(std::move(source_), DeflateFrame::gzip, limit);
}

std::uint64_t UnpackedFile::max_size() const noexcept {
  const std::uint64_t size = file_->size();
  if (!is_packed_) return size;
  return std::min(size, ~std::uint64_t{0} / kMaxDeflateRatio) * kMaxDeflateRatio;
}

}  // namespace mezzo::io::detail
