// GPT-2 with the names that Hugging Face gives its weights, keys and values kept while it generates, and the
// published files.
#pragma once

#include <mezzo/data.h>
#include <mezzo/mezzo.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt2 {

using namespace mezzo;

/// The sizes of a model. As they are here, those of the model with 124 million parameters.
struct Config {
  std::int64_t vocab_size = 50257;
  std::int64_t context = 1024;  ///< tokens that it can look at
  std::int64_t width = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  double dropout = 0.1;  ///< of embeddings, attention weights and both branches, in training
};

/// Keys and values of the tokens before, for each layer.
using Cache = std::vector<nn::KeyValueCache>;

struct Attention final : nn::Module {
  explicit Attention(const Config& config)
      : c_attn(*this, "c_attn", nn::Linear(config.width, 3 * config.width)),
        c_proj(*this, "c_proj", nn::Linear(config.width, config.width)),
        heads(config.heads),
        dropout_p(config.dropout) {}

  /// x [batch, length, width]; with a cache, x follows on what the cache holds, and is added to it.
  [[nodiscard]] Tensor forward(const Tensor& x, nn::KeyValueCache* cache) {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto in_heads = [&](const Tensor& part) {
      return part.view({batch, length, heads, width / heads}).transpose(1, 2);
    };
    const Tensors parts = split(c_attn(x), width, -1);
    const Tensor q = in_heads(parts[0]);
    Tensor k = in_heads(parts[1]), v = in_heads(parts[2]);
    AttentionOptions options{.dropout_p = is_training() ? dropout_p : 0, .is_causal = true};
    if (cache != nullptr) {
      options.is_causal = cache->length() == 0;
      const nn::KeyValues all = cache->append(k, v);
      k = all.keys;
      v = all.values;
      // A single query is the last one and reads all keys.
      if (!options.is_causal && length > 1) options.attn_mask = cache->causal_mask(length);
    }
    const Tensor mixed = scaled_dot_product_attention(q, k, v, options);
    return c_proj(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  nn::Child<nn::Linear> c_attn, c_proj;
  std::int64_t heads;
  double dropout_p;
};

struct FeedForward final : nn::Layer {
  explicit FeedForward(const Config& config)
      : c_fc(*this, "c_fc", nn::Linear(config.width, 4 * config.width)),
        c_proj(*this, "c_proj", nn::Linear(4 * config.width, config.width)) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return c_proj(gelu(c_fc(x), GeluApproximation::tanh));
  }
  nn::Child<nn::Linear> c_fc, c_proj;
};

struct Block final : nn::Module {
  explicit Block(const Config& config)
      : ln_1(*this, "ln_1", nn::LayerNorm(config.width)),
        attn(*this, "attn", Attention(config)),
        ln_2(*this, "ln_2", nn::LayerNorm(config.width)),
        mlp(*this, "mlp", FeedForward(config)),
        drop(*this, "drop", nn::Dropout(config.dropout)) {}
  [[nodiscard]] Tensor forward(const Tensor& x, nn::KeyValueCache* cache) {
    const Tensor attended = x + drop(attn(ln_1(x), cache));
    return attended + drop(mlp(ln_2(attended)));
  }
  nn::Child<nn::LayerNorm> ln_1;
  nn::Child<Attention> attn;
  nn::Child<nn::LayerNorm> ln_2;
  nn::Child<FeedForward> mlp;
  nn::Child<nn::Dropout> drop;
};

/// Weights begin as GPT-2's: normal with deviation 0.02, those that end a branch divided by the root of the
/// number of branches. Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
class GPT2 final : public nn::Module {
 public:
  explicit GPT2(const Config& sizes)
      : config(sizes),
        wte(*this, "wte", nn::Embedding(sizes.vocab_size, sizes.width)),
        wpe(*this, "wpe", nn::Embedding(sizes.context, sizes.width)),
        drop(*this, "drop", nn::Dropout(sizes.dropout)),
        h(*this, "h", nn::make<nn::ModuleList<Block>>()),
        ln_f(*this, "ln_f", nn::LayerNorm(sizes.width)) {
    if (sizes.width % sizes.heads != 0)
      throw ValueError("gpt2", "a width that is a multiple of the heads",
                       std::to_string(sizes.width) + " and " + std::to_string(sizes.heads) + " heads",
                       "pass --heads and --width that fit");
    for (std::int64_t i = 0; i < sizes.layers; ++i) h->push_back(nn::make<Block>(sizes));
    for (const auto& [name, parameter] : named_parameters()) {
      const double branches = name.ends_with("c_proj.weight") ? 2.0 * static_cast<double>(sizes.layers) : 1;
      if (parameter.dim() > 1) nn::init::normal_(parameter, 0, 0.02 / std::sqrt(branches));
      if (name.ends_with("bias")) nn::init::zeros_(parameter);
    }
  }

  /// tokens [batch, length] -> logits [batch, length, vocab_size]. With a cache, tokens follow on what it
  /// holds. Throws: ValueError for more tokens than the context has.
  [[nodiscard]] Tensor forward(const Tensor& tokens, Cache* cache = nullptr) {
    return linear(features(tokens, cache), wte->weight);
  }
  [[nodiscard]] Tensor operator()(const Tensor& tokens, Cache* cache = nullptr) {
    return nn::call(*this, tokens, cache);
  }
  /// The logits behind the last token alone: [batch, vocab_size].
  [[nodiscard]] Tensor last_logits(const Tensor& tokens, Cache* cache = nullptr) {
    return linear(features(tokens, cache).select(1, -1), wte->weight);
  }
  /// Memory for one sequence as long as the context. `dtype`: what autocast's products give.
  [[nodiscard]] Cache make_cache(DType dtype) const {
    Cache cache;
    for (std::int64_t i = 0; i < config.layers; ++i)
      cache.emplace_back(1, config.heads, config.context, config.width / config.heads,
                         nn::KeyValueCacheOptions{.dtype = dtype, .device = wte->weight.device()});
    return cache;
  }

  const Config config;
  nn::Child<nn::Embedding> wte, wpe;
  nn::Child<nn::Dropout> drop;
  nn::Child<nn::ModuleList<Block>> h;
  nn::Child<nn::LayerNorm> ln_f;

 private:
  [[nodiscard]] Tensor features(const Tensor& tokens, Cache* cache) {
    const std::int64_t past = cache == nullptr ? 0 : cache->front().length(), length = tokens.size(1);
    if (past + length > config.context)
      throw ValueError("gpt2", "at most " + std::to_string(config.context) + " tokens",
                       std::to_string(past + length), "pass fewer, or a model with a longer context");
    Tensor x = drop(wte(tokens) + narrow(wpe->weight, 0, past, length));
    for (std::size_t i = 0; i < h->size(); ++i) x = (*h)[i](x, cache == nullptr ? nullptr : &(*cache)[i]);
    return ln_f(x);
  }
};

/// GPT-2's tokens where its files are named, else bytes.
class Tokenizer {
 public:
  /// `folder` holds vocab.json and merges.txt; "": bytes. Throws: IoError.
  explicit Tokenizer(const std::string& folder) {
    if (!folder.empty()) pairs_ = data::GPT2Tokenizer::load(folder + "/vocab.json", folder + "/merges.txt");
  }
  [[nodiscard]] std::vector<std::int64_t> encode(const std::string& text) const {
    if (!pairs_) return bytes_.encode(text).to_vector<std::int64_t>();
    const std::vector<std::int32_t> tokens = pairs_->encode(text);
    return {tokens.begin(), tokens.end()};
  }
  [[nodiscard]] std::string decode(const Tensor& tokens) const {
    return pairs_ ? pairs_->decode(tokens) : bytes_.decode(tokens);
  }
  [[nodiscard]] std::int64_t size() const { return pairs_ ? pairs_->vocab_size() : bytes_.vocab_size(); }
  /// The token that ends a document; -1 where there is none.
  [[nodiscard]] std::int64_t end() const { return pairs_ ? pairs_->end_of_text().value_or(-1) : -1; }

 private:
  std::optional<data::GPT2Tokenizer> pairs_;
  data::ByteTokenizer bytes_;
};

/// Sequences side by side in a text, each with the tokens that follow on its own.
struct Sequences {
  Tensor tokens;
  std::int64_t block;
  [[nodiscard]] std::int64_t size() const { return (tokens.numel() - 1) / block; }
  [[nodiscard]] data::Example get(std::int64_t i) const {
    return {narrow(tokens, 0, i * block, block), narrow(tokens, 0, i * block + 1, block)};
  }
};

struct GenerateOptions {
  std::int64_t count = 1;       ///< tokens
  std::int64_t vocab_size = 0;  ///< tokens from here on are never drawn: those that a tokenizer does not have
  std::int64_t end = -1;        ///< the token that is the last one
  DType dtype = DType::f32;     ///< as of GPT2::make_cache
  nn::SampleOptions sample = {};
};

/// Appends tokens to `tokens`, one by one. Where the context is full, its second half is read anew as the
/// beginning of the next one.
inline void generate(GPT2& model, std::vector<std::int64_t>& tokens, const GenerateOptions& options) {
  const InferenceMode inference;
  const std::int64_t context = model.config.context;
  Cache cache = model.make_cache(options.dtype);
  const auto last = [&](std::int64_t most) {
    return std::vector<std::int64_t>(tokens.end() - std::min(std::ssize(tokens), most), tokens.end());
  };
  std::vector<std::int64_t> next = last(context);
  for (std::int64_t i = 0; i < options.count; ++i) {
    if (cache.front().length() == context) {
      for (nn::KeyValueCache& layer : cache) layer.truncate(0);
      next = last(std::max<std::int64_t>(1, context / 2));
    }
    const Tensor input = tensor(next, {1, std::ssize(next)}).to(model.wte->weight.device());
    const Tensor logits = narrow(model.last_logits(input, &cache), 1, 0, options.vocab_size);
    tokens.push_back(nn::sample_logits(logits, options.sample).item<std::int64_t>());
    if (tokens.back() == options.end) return;
    next = {tokens.back()};
  }
}

/// The weights of a published file, under the names and in the shapes of GPT2's state dict: with or without
/// "transformer." before the names, matrices that are transposed back, no masks. Throws: IoError; ValueError
/// for what is no GPT-2, and for a lm_head.weight that is not wte.weight.
inline io::TensorFile::NamedTensors read_weights(const std::string& path) {
  io::TensorFile::NamedTensors tensors = io::load(path, Device::cpu(), {.mapped = true});
  const auto ends_any = [&](std::string_view end) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const auto& tensor) { return tensor.first.ends_with(end); });
  };
  const auto find = [&](std::string_view name) {
    for (const auto& [given, tensor] : tensors) {
      if (given == name) return tensor;
    }
    return Tensor();
  };
  if (find("transformer.wte.weight").defined()) tensors = io::rename(tensors, {{"transformer.", ""}});
  const Tensor wte = find("wte.weight"), wpe = find("wpe.weight"), head = find("lm_head.weight");
  const auto is_matrix = [](const Tensor& x) { return x.defined() && x.dim() == 2; };
  if (!is_matrix(wte) || !is_matrix(wpe) || !ends_any(".mlp.c_fc.weight"))
    throw ValueError("gpt2", "weights of a GPT-2 (wte.weight, wpe.weight, h.0.ln_1.weight, ...) in " + path,
                     std::to_string(tensors.size()) + " other tensors", "pass model.safetensors of a GPT-2");
  if (head.defined() && (head.shape() != wte.shape() || !equal(head, wte)))
    throw ValueError("gpt2", "lm_head.weight to be wte.weight in " + path, "another matrix",
                     "untied weights are not GPT-2's");
  std::vector<io::RenameRule> rules;
  for (const std::string matrix : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"})
    rules.push_back({"h.*." + matrix + ".weight", "h.*." + matrix + ".weight", io::Renamed::transposed});
  for (const std::string mask : {"attn.bias", "attn.masked_bias"})
    if (ends_any("." + mask)) rules.push_back({"h.*." + mask, "", io::Renamed::dropped});
  if (head.defined()) rules.push_back({"lm_head.weight", "", io::Renamed::dropped});
  return io::rename(tensors, rules);
}

/// The sizes that weights say. The heads stand in config.json beside the file; where that is missing they are
/// 64 wide, as in all published models.
inline Config config_of(const io::TensorFile::NamedTensors& weights, const std::string& path) {
  Config config{.layers = 0};
  for (const auto& [name, tensor] : weights) {
    if (name == "wte.weight") config.vocab_size = tensor.size(0), config.width = tensor.size(1);
    if (name == "wpe.weight") config.context = tensor.size(0);
    if (name.starts_with("h.") && name.ends_with(".ln_1.weight")) ++config.layers;
  }
  const std::filesystem::path json = std::filesystem::path(path).replace_filename("config.json");
  config.heads = std::filesystem::exists(json) ? io::read_json_file(json.string()).at("n_head").as_int()
                                               : std::max<std::int64_t>(1, config.width / 64);
  return config;
}

}  // namespace gpt2
