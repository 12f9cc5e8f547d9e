// Files of tokens: the tokens are the file's bytes, and samples are windows of them.
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/token_file.h"
#include "mezzo/tests/fuzz/memory_file.h"
#include "mezzo/tests/fuzz/require.h"
#include "mezzo/tests/fuzz/targets.h"

namespace mezzo::fuzz {

namespace {

using data::TokenFormat;

/// Tokens of the file's end, by the format's definition.
std::vector<std::int64_t> plain_tokens(const std::uint8_t* data, std::size_t size, std::size_t header,
                                       std::size_t width) {
  std::vector<std::int64_t> tokens;
  for (std::size_t at = header; at + width <= size; at += width) {
    std::int64_t token = 0;
    for (std::size_t i = width; i-- > 0;) token = token * 256 + data[at + i];
    tokens.push_back(token);
  }
  return tokens;
}

void check_windows(const std::string& path, TokenFormat format, const std::vector<std::int64_t>& tokens) {
  const data::TokenFile set(path, {.block_size = 3, .stride = 2, .format = format});
  const data::RandomTokenWindows windows(
      path, {.block_size = 3, .samples = 5, .seed = tokens.size(), .format = format});
  const auto check = [&](const data::Example& sample, std::int64_t begin) {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t at = static_cast<std::size_t>(begin) + i;
      require(at + 1 < tokens.size(), "a window and its target lie in the file");
      require(sample.data.data<std::int64_t>()[i] == tokens[at], "a sample is a window");
      require(sample.target.data<std::int64_t>()[i] == tokens[at + 1], "a target is the next token");
    }
  };
  for (std::int64_t i = 0; i < set.size(); ++i) check(set.get(i), 2 * i);
  for (std::int64_t i = 0; i < windows.size(); ++i) check(windows.get(i), windows.begin_of(i));
}

}  // namespace

int fuzz_token_file(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  for (const TokenFormat format :
       {TokenFormat::automatic, TokenFormat::raw_u16, TokenFormat::llmc, TokenFormat::llmc_u32}) {
    try {
      const data::TokenStore store(file.path(), format);
      require(format == TokenFormat::automatic || store.format() == format, "a format asked for is kept");
      const std::vector<std::int64_t> tokens =
          plain_tokens(data, size, store.format() == TokenFormat::raw_u16 ? 0 : 1024,
                       store.format() == TokenFormat::llmc_u32 ? 4 : 2);
      std::vector<std::int64_t> found(static_cast<std::size_t>(store.size()));
      store.read(0, found);
      require(found == tokens, "tokens are the file's bytes");
      check_windows(file.path(), format, tokens);
    } catch (const IoError&) {
    }
  }
  return 0;
}

}  // namespace mezzo::fuzz
