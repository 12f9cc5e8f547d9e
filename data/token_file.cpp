// Headers, checked against the file's size, and windows of the mapped tokens.
#include "mezzo/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/random/philox.h"
#include "mezzo/data/dataset.h"
#include "mezzo/io/detail/file.h"

namespace mezzo::data {

namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::size_t kTokenHeader = 256;  // numbers of i32
constexpr std::size_t kTokenHeaderBytes = kTokenHeader * sizeof(std::int32_t);

/// Keeps the windows' draws apart from those of generators with the same seed, which have stream 0.
constexpr std::uint64_t kWindowStream = 0x77696E646F77;

struct TokenHeader {
  std::int32_t magic, version;
};
TokenHeader token_header_of(TokenFormat format) {
  return format == TokenFormat::llmc ? TokenHeader{20240520, 1} : TokenHeader{20240801, 7};
}

std::size_t bytes_per_token(TokenFormat format) { return format == TokenFormat::llmc_u32 ? 4 : 2; }

std::int32_t token_header_number(std::span<const std::byte> file, std::size_t index) {
  std::int32_t number = 0;
  std::memcpy(&number, file.data() + index * sizeof number, sizeof number);
  return number;
}

TokenFormat detect_token_format(std::span<const std::byte> file) {
  if (file.size() < kTokenHeaderBytes) return TokenFormat::raw_u16;
  for (const TokenFormat format : {TokenFormat::llmc, TokenFormat::llmc_u32}) {
    if (token_header_number(file, 0) == token_header_of(format).magic) return format;
  }
  return TokenFormat::raw_u16;
}

/// The tokens behind the header, which is checked.
std::span<const std::byte> tokens_of(const io::MappedFile& file, TokenFormat format) {
  const std::span<const std::byte> bytes = file.bytes();
  const std::size_t width = bytes_per_token(format);
  if (format == TokenFormat::raw_u16) {
    if (bytes.size() % width == 0) return bytes;
    throw IoError(file.op(), "tokens of 2 bytes each", std::to_string(bytes.size()) + " bytes",
                  "write the file again, or check its format");
  }
  if (bytes.size() < kTokenHeaderBytes) {
    throw IoError(file.op(), "a header of 1024 bytes", std::to_string(bytes.size()) + " bytes",
                  "write the file again, or check its format");
  }
  const TokenHeader header = token_header_of(format);
  for (const auto& [index, name, wanted] :
       {std::tuple(0, "magic number", header.magic), std::tuple(1, "version", header.version)}) {
    const std::int32_t got = token_header_number(bytes, static_cast<std::size_t>(index));
    if (got != wanted) {
      throw IoError(file.op(), std::string("the ") + name + " " + std::to_string(wanted), std::to_string(got),
                    "write the file again with llm.c, or check its format");
    }
  }
  const std::int32_t count = token_header_number(bytes, 2);
  const std::span<const std::byte> tokens = bytes.subspan(kTokenHeaderBytes);
  if (count < 0 || tokens.size() != static_cast<std::size_t>(count) * width) {
    throw IoError(
        file.op(),
        "the " + std::to_string(count) + " tokens of the header, of " + std::to_string(width) + " bytes each",
        std::to_string(tokens.size()) + " bytes behind it", "write the file again");
  }
  return tokens;
}

/// Copies and checks; -1 or where in `out` a token is not below `limit`.
template <class T>
std::ptrdiff_t widen_tokens(const std::byte* from, std::span<std::int64_t> out, std::int64_t limit) {
  std::ptrdiff_t bad = -1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    T token = 0;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    out[i] = token;
    if (out[i] >= limit && bad < 0) bad = static_cast<std::ptrdiff_t>(i);
  }
  return bad;
}

/// Number of windows that begin `stride` apart.
std::int64_t count_windows(const TokenStore& tokens, std::int64_t block_size, std::int64_t stride) {
  if (block_size < 1)
    throw ValueError(tokens.op(), "a block size of 1 or more", std::to_string(block_size), "");
  if (stride < 1) throw ValueError(tokens.op(), "a stride of 1 or more", std::to_string(stride), "");
  if (tokens.size() <= block_size) {
    throw IoError(tokens.op(), "more tokens than a block has, which is " + std::to_string(block_size),
                  std::to_string(tokens.size()), "choose a smaller .block_size");
  }
  return (tokens.size() - block_size - 1) / stride + 1;
}

}  // namespace

TokenStore::TokenStore(const std::string& path, TokenFormat format, std::optional<std::int64_t> vocab_size)
    : format_(format), vocab_size_(vocab_size) {
  const Ref<io::MappedFile> file(new io::MappedFile(path, "TokenFile"));
  op_ = file->op();
  file_ = file;
  if (vocab_size_ && *vocab_size_ < 1)
    throw ValueError(op_, "a vocabulary of 1 token or more", std::to_string(*vocab_size_), "");
  if (format_ == TokenFormat::automatic) format_ = detect_token_format(file->bytes());
  const std::span<const std::byte> tokens = tokens_of(*file, format_);
  first_ = tokens.data();
  size_ = static_cast<std::int64_t>(tokens.size() / bytes_per_token(format_));
}

void TokenStore::read(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (begin < 0 || count > size_ || begin > size_ - count) {
    throw IndexError(op(), "tokens within the " + std::to_string(size_) + " of the file",
                     std::to_string(count) + " from " + std::to_string(begin) + " on", "");
  }
  if (out.empty()) return;
  const std::size_t width = bytes_per_token(format_);
  const std::byte* const from = first_ + static_cast<std::size_t>(begin) * width;
  const std::int64_t limit = vocab_size_.value_or(std::int64_t{1} << 32U);
  const std::ptrdiff_t bad = width == 2 ? widen_tokens<std::uint16_t>(from, out, limit)
                                        : widen_tokens<std::uint32_t>(from, out, limit);
  if (bad < 0) return;
  throw IoError(
      op(), "tokens below the vocabulary's size " + std::to_string(limit),
      std::to_string(out[static_cast<std::size_t>(bad)]) + " at position " + std::to_string(begin + bad),
      "check .vocab_size and the file's format");
}

TokenWindows::TokenWindows(TokenStore tokens, std::int64_t block_size, std::int64_t stride,
                           std::optional<std::int64_t> samples, std::optional<std::uint64_t> seed)
    : tokens_(std::move(tokens)),
      block_size_(block_size),
      stride_(stride),
      size_(samples.value_or(count_windows(tokens_, block_size, stride))),
      seed_(seed) {
  if (size_ < 0) throw ValueError(tokens_.op(), "0 samples or more", std::to_string(size_), "");
}

std::int64_t TokenWindows::begin_of(std::int64_t index) const {
  detail::require_index(tokens_.op(), index, size_);
  if (!seed_) return index * stride_;
  const PhiloxBlock words =
      Philox()(philox_counter(static_cast<std::uint64_t>(index), kWindowStream), philox_key(*seed_));
  const std::uint64_t drawn = std::uint64_t{words[0]} << 32U | words[1];
  // The high half of a product: even but for one part in 2^64 / begins, and without a loop.
  const auto begins = static_cast<std::uint64_t>(tokens_.size() - block_size_);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(static_cast<Wide>(drawn) * begins >> 64U));
}

Example TokenWindows::windows(const Shape& shape, std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) detail::require_index(tokens_.op(), index, size_);
  Example batch{empty(shape, {.dtype = DType::i64}), empty(shape, {.dtype = DType::i64})};
  auto* data = static_cast<std::int64_t*>(batch.data.impl().data());
  auto* target = static_cast<std::int64_t*>(batch.target.impl().data());
  // Inputs and targets: each window is read once, with one token more than the block.
  std::vector<std::int64_t> window(static_cast<std::size_t>(block_size_) + 1);
  for (const std::int64_t index : indices) {
    tokens_.read(begin_of(index), window);
    data = std::copy(window.begin(), window.end() - 1, data);
    target = std::copy(window.begin() + 1, window.end(), target);
  }
  return batch;
}

Example TokenWindows::get(std::int64_t index) const { return windows({block_size_}, {&index, 1}); }

Example TokenWindows::get_batch(std::span<const std::int64_t> indices) const {
  return windows({static_cast<std::int64_t>(indices.size()), block_size_}, indices);
}

TokenFile::TokenFile(const std::string& path, const TokenFileOptions& options)
    : TokenWindows(TokenStore(path, options.format, options.vocab_size), options.block_size,
                   options.stride.value_or(options.block_size), {}, {}) {}

RandomTokenWindows::RandomTokenWindows(const std::string& path, const RandomTokenWindowsOptions& options)
    : TokenWindows(TokenStore(path, options.format, options.vocab_size), options.block_size,
                   options.block_size, options.samples, options.seed) {}

void write_tokens(const std::string& path, std::span<const std::int32_t> tokens,
                  const WriteTokensOptions& options) {
  const std::string op = "write_tokens '" + path + "'";
  const TokenFormat format = options.format;
  if (format == TokenFormat::automatic)
    throw ValueError(op, "a format to write", "automatic", "choose raw_u16, llmc or llmc_u32");
  const std::int32_t most =
      format == TokenFormat::llmc_u32 ? std::numeric_limits<std::int32_t>::max() : 65535;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] <= most) continue;
    throw ValueError(op, "tokens from 0 to " + std::to_string(most),
                     std::to_string(tokens[i]) + " at position " + std::to_string(i),
                     "choose another format");
  }
  io::AtomicFile file(path);
  if (format != TokenFormat::raw_u16) {
    constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
    if (tokens.size() > kMost) {
      throw ValueError(op, "at most 2147483647 tokens, as the header counts them",
                       std::to_string(tokens.size()), "write several files");
    }
    std::array<std::int32_t, kTokenHeader> header{};
    header[0] = token_header_of(format).magic;
    header[1] = token_header_of(format).version;
    header[2] = static_cast<std::int32_t>(tokens.size());
    file.write(std::as_bytes(std::span(header)));
  }
  if (format == TokenFormat::llmc_u32) {
    file.write(std::as_bytes(tokens));
  } else {
    constexpr std::size_t kAtOnce = 1U << 16U;
    std::vector<std::uint16_t> block;
    for (std::size_t begin = 0; begin < tokens.size(); begin += kAtOnce) {
      const auto part = tokens.subspan(begin, std::min(kAtOnce, tokens.size() - begin));
      block.assign(part.begin(), part.end());
      file.write(std::as_bytes(std::span(block)));
    }
  }
  file.commit();
}

}  // namespace mezzo::data
