// The walk over a text's words, and what is remembered of words seen before.
#include "mezzo/data/text/gpt2_tokenizer.h"

#include <mutex>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/text/detail/gpt2_files.h"
#include "mezzo/data/text/detail/token_ids.h"
#include "mezzo/data/text/detail/word_cache.h"
#include "mezzo/data/text/detail/word_splitter.h"

namespace mezzo::data {

namespace {

constexpr const char* kEncodeOp = "GPT2Tokenizer::encode";
constexpr const char* kDecodeOp = "GPT2Tokenizer::decode";

}  // namespace

struct GPT2Tokenizer::Impl {
  detail::GPT2Vocabulary vocabulary;
  /// Workspaces that no call uses. Each call has one of its own, so that threads do not wait for each other.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<detail::EncodeWorkspace>> idle;

  [[nodiscard]] std::unique_ptr<detail::EncodeWorkspace> take_workspace() const {
    const std::scoped_lock lock(mutex);
    if (idle.empty()) return std::make_unique<detail::EncodeWorkspace>();
    std::unique_ptr<detail::EncodeWorkspace> workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<detail::EncodeWorkspace> workspace) const {
    constexpr std::size_t kMostIdle = 64;
    const std::scoped_lock lock(mutex);
    if (idle.size() < kMostIdle) idle.push_back(std::move(workspace));
  }

  void encode_text(std::string_view text, detail::EncodeWorkspace& workspace,
                   std::vector<std::int32_t>& out) const {
    constexpr std::size_t kTooLong = std::size_t{1} << 31U;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = detail::word_end(text, begin);
      const std::string_view word = text.substr(begin, end - begin);
      begin = end;
      if (workspace.cache.find(word, out)) continue;
      if (word.size() >= kTooLong)
        throw ValueError(kEncodeOp, "words below 2^31 bytes", std::to_string(word.size()) + " bytes",
                         "cut the text");
      const std::size_t before = out.size();
      workspace.encoder.encode(word, vocabulary.byte_tokens, vocabulary.merges, out);
      workspace.cache.keep(word, std::span(out).subspan(before));
    }
  }
};

GPT2Tokenizer GPT2Tokenizer::load(const std::string& vocab_json, const std::string& merges_txt) {
  auto impl = std::make_shared<Impl>();
  impl->vocabulary = detail::read_gpt2_vocabulary(vocab_json, merges_txt);
  return GPT2Tokenizer(std::move(impl));
}

std::int64_t GPT2Tokenizer::vocab_size() const noexcept {
  return static_cast<std::int64_t>(impl_->vocabulary.tokens.size());
}

std::optional<std::int32_t> GPT2Tokenizer::end_of_text() const noexcept {
  return impl_->vocabulary.end_of_text;
}

std::vector<std::int32_t> GPT2Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (options.allow_special && !end_of_text())
    throw ValueError(kEncodeOp, "a vocabulary with <|endoftext|>", "one without", "leave out .allow_special");
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3 + 1);
  std::unique_ptr<detail::EncodeWorkspace> workspace = impl_->take_workspace();
  while (options.allow_special) {
    const std::size_t special = text.find(detail::kEndOfText);
    if (special == std::string_view::npos) break;
    impl_->encode_text(text.substr(0, special), *workspace, tokens);
    tokens.push_back(*end_of_text());
    text.remove_prefix(special + detail::kEndOfText.size());
  }
  impl_->encode_text(text, *workspace, tokens);
  impl_->give_back(std::move(workspace));
  return tokens;
}

std::string GPT2Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    detail::check_token(kDecodeOp, tokens[i], i, vocab_size());
    text += impl_->vocabulary.tokens[static_cast<std::size_t>(tokens[i])];
  }
  return text;
}

std::string GPT2Tokenizer::decode(const Tensor& tokens) const {
  const std::vector<std::int64_t> ids = detail::token_ids(kDecodeOp, tokens);
  std::vector<std::int32_t> narrow;
  narrow.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    detail::check_token(kDecodeOp, ids[i], i, vocab_size());
    narrow.push_back(static_cast<std::int32_t>(ids[i]));
  }
  return decode(narrow);
}

}  // namespace mezzo::data
