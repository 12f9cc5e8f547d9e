// Learns to write a text character by character: a small GPT on a file, or on sentences that it makes itself.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../model_program.h"
#include "model.h"
#include "text.h"

namespace {

using namespace mezzo;

struct Options : examples::ModelOptions {
  Options() {
    duration = "1200ba";
    eval_interval = save_interval = "400ba";
    batch = 24;
    lr = 2e-3;
  }
  models::GptSizes sizes{.layers = 4, .width = 128, .heads = 4, .context = 64};
  std::int64_t sample = 400;
  double temperature = 0.8;
  bool low_precision_norms = false;
  std::string weights = "f32";
};

void add_options(CLI::App& app, Options& o) {
  examples::add_model_options(app, o, "text file (UTF-8); its last tenth is for validation");
  const auto add_size = [&](const char* name, std::int64_t& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(1, 1 << 16))->capture_default_str();
  };
  add_size("--layers", o.sizes.layers, "transformer blocks");
  add_size("--width", o.sizes.width, "features of a character");
  add_size("--heads", o.sizes.heads, "heads of attention");
  add_size("--context", o.sizes.context, "characters that the model sees");
  app.add_option("--sample", o.sample, "characters to write at the end")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--temperature", o.temperature, "of the sample; 0: always the likeliest character")
      ->capture_default_str();
  app.add_flag("--low-precision-norms", o.low_precision_norms, "norms run in 16 bits, too");
  app.add_option("--weights", o.weights, "what the optimizer updates")
      ->check(CLI::IsMember({"f32", "bf16", "bf16_stochastic", "bf16_masters", "bf16_split"}))
      ->capture_default_str();
}

/// AdamW for weights that are kept in this way.
optim::AdamWOptions optimizer_options(const Options& o) {
  optim::AdamWOptions options{.lr = o.lr, .beta2 = 0.99, .weight_decay = 0.1};
  options.stochastic_rounding = o.weights == "bf16_stochastic";
  if (o.weights == "bf16_masters") options.master_weights = optim::MasterWeights::f32;
  if (o.weights == "bf16_split") options.master_weights = optim::MasterWeights::split;
  return options;
}

/// Writes o.sample characters behind the tokens [1, n] of a beginning.
std::string sample(const Options& o, models::Gpt& net, const data::CharTokenizer& characters,
                   const Tensor& begin) {
  const NoGrad no_grad;
  net.eval();
  Tensor text = begin;
  for (std::int64_t i = 0; i < o.sample; ++i) {
    const std::int64_t seen = std::min(text.size(1), o.sizes.context);
    const Tensor scores = net(text.narrow(1, text.size(1) - seen, seen)).select(1, seen - 1);
    text = cat({text, nn::sample_logits(scores, {.temperature = o.temperature}).unsqueeze(0)}, 1);
  }
  return characters.decode(text.flatten().cpu());
}

void run(const Options& o) {
  manual_seed(o.seed);
  const Device device = examples::device_of(o);
  const bool made = o.data.empty();
  const std::string text = made ? examples::made_text(4000, 1) : examples::read_text(o.data);
  const data::CharTokenizer characters(text);
  const Tensor tokens = characters.encode(text);
  const std::int64_t learned = tokens.numel() * 9 / 10;
  if (tokens.numel() - learned <= o.sizes.context)
    throw ValueError("char_gpt", fmt::format("a text of more than {} characters", 10 * o.sizes.context),
                     std::to_string(tokens.numel()), "give a longer one, or a smaller --context");
  data::DataLoader train_loader(
      examples::Windows{tokens.narrow(0, 0, learned), o.sizes.context, true},
      {.batch_size = o.batch, .drop_last = true, .seed = o.seed, .num_workers = o.workers, .device = device});
  data::DataLoader test_loader(
      examples::Windows{tokens.narrow(0, learned, tokens.numel() - learned), o.sizes.context, false},
      {.batch_size = 64, .num_workers = o.workers, .device = device});

  models::GptSizes sizes = o.sizes;
  sizes.vocabulary = characters.vocab_size();
  models::Gpt net(sizes);
  net.to(device).to(o.weights == "f32" ? DType::f32 : DType::bf16);
  optim::AdamW optimizer(net, optimizer_options(o));
  std::vector<train::AnyCallback> algorithms;
  if (o.low_precision_norms) algorithms.emplace_back(train::algorithms::LowPrecisionLayerNorm{});
  const auto speed = std::make_shared<train::callbacks::SpeedMonitor>();
  auto callbacks =
      examples::callbacks_of(o, {{"model", fmt::format("Gpt {} {} {} {} {}", sizes.layers, sizes.width,
                                                       sizes.heads, sizes.context, sizes.vocabulary)},
                                 {"clip_norm", "1"}});
  callbacks.emplace_back(speed);
  train::Trainer trainer(
      {.model = net,
       .loss = [](const Tensor& scores,
                  const Tensor& next) { return cross_entropy(scores.flatten(0, 1), next.flatten()); },
       .optimizer = optimizer,
       .schedule = examples::warmup_cosine(o, train_loader.size()),
       .train_loader = train_loader,
       .eval_loader = test_loader,
       .tokens = [](const data::Example& batch) { return batch.data.numel(); },
       .metrics = {{"perplexity", train::Perplexity()}},
       .max_duration = o.duration,
       .eval_interval = o.eval_interval,
       .precision = examples::precision_of(o),
       .clip_norm = 1.0,
       .algorithms = algorithms,
       .callbacks = callbacks,
       .sinks = examples::sinks_of(o, "char_gpt"),
       .save = examples::save_of(o),
       .resume = !o.resume.empty(),
       .profile = examples::profile_of(o),
       .parallel = dist::data_parallel()});
  trainer.fit();
  if (dist::rank() == 0)
    fmt::print("{:.0f} characters per second\n", speed->throughput().total_tokens_per_second());
  if (o.sample > 0 && dist::rank() == 0)
    fmt::print("--- sample\n{}\n---\n",
               sample(o, net, characters, tokens.narrow(0, learned, 1).unsqueeze(0).to(device)));
  examples::finish(o, {.wanted = made ? 0.4 : 2.0, .unit = "nats per character"}, "loss", trainer.state());
}

}  // namespace

int main(int argc, char** argv) {
  return run_program<Options>(argc, argv, "char_gpt",
                              "Trains a small GPT to write a text character by character.", add_options, run,
                              examples::end_processes);
}
