// Files of token numbers, as nanoGPT and llm.c write them: read in place, so that a file may be larger than
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "mezzo/core/ref_counted.h"
#include "mezzo/core/tensor.h"
#include "mezzo/data/example.h"

namespace mezzo::data {

enum class TokenFormat : std::uint8_t {
  automatic,  ///< llm.c's where the file begins with one of its magic numbers, else raw_u16
  raw_u16,    ///< nanoGPT: u16 and nothing else
  llmc,       ///< llm.c, GPT-2: 256 numbers of i32 (magic 20240520, version 1, count of tokens), then u16
  llmc_u32,   ///< llm.c, Llama 3: the same with magic 20240801, version 7, then u32
};

/// The tokens of a file, mapped into memory: tokens that nobody asks for are not read. The file must not be
/// made shorter meanwhile. Copies share the mapping. Members may be called from several threads.
class TokenStore {
 public:
  /// Tokens from `vocab_size` on are refused when they are read. Throws: IoError, naming the file, when it
  /// cannot be read, is no whole number of tokens, or holds another number than its header says; ValueError
  /// for a `vocab_size` below 1.
  explicit TokenStore(const std::string& path, TokenFormat format = TokenFormat::automatic,
                      std::optional<std::int64_t> vocab_size = {});

  /// Number of tokens.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Never `automatic`.
  [[nodiscard]] TokenFormat format() const noexcept { return format_; }
  /// "TokenFile '<path>'".
  [[nodiscard]] const std::string& op() const noexcept { return op_; }
  /// Copies the tokens from `begin` on. Throws: IndexError where they do not lie in the file; IoError, with
  /// the position, for a token that is not in the vocabulary.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  std::string op_;
  Ref<RefCounted> file_;  ///< keeps the mapping
  const std::byte* first_ = nullptr;
  std::int64_t size_ = 0;
  TokenFormat format_;
  std::optional<std::int64_t> vocab_size_;
};

/// Base of both data sets: samples are windows of the tokens, and their targets the windows one token later.
class TokenWindows {
 public:
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Shapes: data [block_size], target [block_size]. Dtypes: i64. Throws: IndexError; IoError, with the
  /// position, for a token that is not in the vocabulary.
  [[nodiscard]] Example get(std::int64_t index) const;
  /// Shapes: data [B, block_size], target [B, block_size]. Dtypes: i64. Throws: as get.
  [[nodiscard]] Example get_batch(std::span<const std::int64_t> indices) const;
  /// The position in the file where a sample begins. Throws: IndexError.
  [[nodiscard]] std::int64_t begin_of(std::int64_t index) const;
  [[nodiscard]] const TokenStore& tokens() const noexcept { return tokens_; }

 protected:
  /// `samples`: none: as many as begin `stride` apart. `seed`: of begins that are drawn; none: they are
  /// `stride` apart.
  TokenWindows(TokenStore tokens, std::int64_t block_size, std::int64_t stride,
               std::optional<std::int64_t> samples, std::optional<std::uint64_t> seed);

 private:
  [[nodiscard]] Example windows(const Shape& shape, std::span<const std::int64_t> indices) const;

  TokenStore tokens_;
  std::int64_t block_size_, stride_, size_;
  std::optional<std::uint64_t> seed_;
};

struct TokenFileOptions {
  std::int64_t block_size = 1024;               ///< tokens of a sample
  std::optional<std::int64_t> stride = {};      ///< from a sample's begin to the next one's; else block_size
  std::optional<std::int64_t> vocab_size = {};  ///< tokens from here on are refused when they are read
  TokenFormat format = TokenFormat::automatic;
};

/// Sample i is the tokens from i * stride on; its target is the tokens from i * stride + 1 on.
class TokenFile : public TokenWindows {
 public:
  /// Throws: IoError, as TokenStore, and for a file of fewer than block_size + 1 tokens; ValueError for a
  /// block size or stride below 1.
  explicit TokenFile(const std::string& path, const TokenFileOptions& options = {});
};

struct RandomTokenWindowsOptions {
  std::int64_t block_size = 1024;            ///< tokens of a sample
  std::optional<std::int64_t> samples = {};  ///< size(); else as many as blocks lie beside each other
  std::uint64_t seed = 0;
  std::optional<std::int64_t> vocab_size = {};  ///< tokens from here on are refused when they are read
  TokenFormat format = TokenFormat::automatic;
};

/// Windows that begin anywhere, as nanoGPT draws them: every begin that leaves room for the target is equally
/// likely. Where sample i begins follows from the seed and i alone (Philox), so samples are the same in any
/// order and on any number of threads, and `samples` may be any number.
class RandomTokenWindows : public TokenWindows {
 public:
  /// Throws: as TokenFile, and ValueError for a negative number of samples.
  explicit RandomTokenWindows(const std::string& path, const RandomTokenWindowsOptions& options = {});
};

struct WriteTokensOptions {
  TokenFormat format = TokenFormat::raw_u16;  ///< automatic is not one to write
};

/// Writes a file that TokenFile and the program of the format read, all or nothing. Throws: IoError when it
/// cannot be written; ValueError for a token that does not fit the format, with its position, and for more
/// than 2^31 - 1 tokens in llm.c's formats.
void write_tokens(const std::string& path, std::span<const std::int32_t> tokens,
                  const WriteTokensOptions& options = {});

}  // namespace mezzo::data
