// GPT-2: reads published weights or begins with random ones, trains on a text in mixed precision, with
// checkpoints from which it goes on, and writes text with the keys and values of past tokens kept.
#include <fmt/format.h>
#include <mezzo/data.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "../command_line.h"
#include "../training_options.h"
#include "model.h"

namespace {

using namespace mezzo;

struct Options {
  TrainingOptions run{.steps = 200};
  std::string weights, tokenizer, prompt = "The ";
  gpt2::Config model{.vocab_size = 256, .context = 128, .width = 128, .layers = 4, .heads = 4};
  std::int64_t batch_size = 8, block = 0, generate = 0;
  double lr = 0;
  nn::SampleOptions sample;
};

void add_options(CLI::App& app, Options& o) {
  add_option(app, "--weights", o.weights, "safetensors of a GPT-2 as on Hugging Face; else a random model");
  add_option(app, "--layers", o.model.layers, "of a random model");
  add_option(app, "--heads", o.model.heads, "of a random model");
  add_option(app, "--width", o.model.width, "of a random model");
  add_option(app, "--context", o.model.context, "of a random model");
  add_option(app, "--vocab-size", o.model.vocab_size, "of a random model, if more than the tokenizer's");
  add_option(app, "--tokenizer", o.tokenizer, "folder with vocab.json and merges.txt; else bytes are tokens");
  add_training_options(app, o.run, "text to train on; else one that the program makes");
  add_option(app, "--batch-size", o.batch_size, "sequences per step");
  add_option(app, "--block", o.block, "tokens of a sequence; 0: as many as the context");
  add_option(app, "--lr", o.lr, "highest rate of AdamW; 0: 3e-3 for a random model, 5e-5 for --weights");
  add_option(app, "--dropout", o.model.dropout, "in training");
  add_option(app, "--generate", o.generate, "tokens to write at the end");
  add_option(app, "--prompt", o.prompt, "what they follow on");
  add_option(app, "--temperature", o.sample.temperature, "0: always the most likely token");
  add_option(app, "--top-k", o.sample.top_k, "draw one of so many tokens; 0: of all");
  add_option(app, "--top-p", o.sample.top_p, "draw one of the most likely tokens that have this share");
}

std::string text_of(const std::string& path) {
  std::string text;
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw IoError("gpt2", "a text to train on", path + ", which cannot be read", "check --data");
    return text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const char* const parts[] = {"The cat", "A dog",  "My sister", " sees",    " hears",    " likes",
                               " a red",  " every", " no",       " bird.\n", " house.\n", " ship.\n"};
  data::Random random(1);
  for (int i = 0; i < 12000; ++i) text += parts[i % 4 * 3 + random.integer(3)];
  return text;
}

/// The mean over the tokens of a batch.
Tensor loss_of(gpt2::GPT2& model, const data::Example& batch, const Setting& setting) {
  const amp::Autocast autocast = setting.autocast();
  return cross_entropy(model(batch.data).flatten(0, 1), batch.target.flatten());
}

void print_loss(gpt2::GPT2& model, data::DataLoader<>& loader, const Setting& setting, std::int64_t step) {
  const NoGrad no_grad;
  train::Mean mean;
  model.eval();
  for (const data::Example& batch : loader)
    mean.update(loss_of(model, batch, setting), static_cast<double>(batch.data.numel()));
  model.train();
  fmt::print("step {}: loss {:.4f} on the last tenth of the text\n", step, mean.value());
}

/// The loss, and the norm of its gradients.
std::pair<Tensor, Tensor> train_step(gpt2::GPT2& model, const data::Example& batch, const Setting& setting,
                                     optim::Optimizer& optimizer, optim::LRScheduler& schedule,
                                     amp::GradScaler& scaler) {
  const Tensor loss = loss_of(model, batch, setting);
  scaler.scale(loss).backward();
  scaler.unscale_(optimizer);
  const Tensor norm = optim::clip_grad_norm_(model.parameters(), 1.0);
  schedule.step(scaler.step(optimizer));
  scaler.update();
  optimizer.zero_grad();
  return {loss, norm};
}

void train_on(const Tensor& tokens, gpt2::GPT2& model, const Options& o, const Setting& setting) {
  const std::int64_t block = o.block > 0 ? o.block : model.config.context, last = tokens.numel() / 10,
                     first = tokens.numel() - last;
  require(last > block, "gpt2", "a text of at least " + std::to_string(10 * block + 10) + " tokens",
          std::to_string(tokens.numel()), "name a longer one or a smaller --block");
  data::DataLoader loader(gpt2::Sequences{narrow(tokens, 0, 0, first), block}, {.batch_size = o.batch_size,
                                                                                .shuffle = true,
                                                                                .drop_last = true,
                                                                                .seed = o.run.seed,
                                                                                .device = setting.device});
  data::DataLoader held_out(gpt2::Sequences{narrow(tokens, 0, first, last), block},
                            {.batch_size = o.batch_size, .device = setting.device});
  const double lr = o.lr != 0 ? o.lr : o.weights.empty() ? 3e-3 : 5e-5;
  optim::AdamW optimizer(
      optim::decay_groups(model, optim::AdamWOptions{.lr = lr, .beta2 = 0.95, .weight_decay = 0.1}));
  optim::WarmupCosine schedule(
      optimizer, {.warmup_steps = o.run.steps / 10, .total_steps = o.run.steps, .min_ratio = 0.1});
  amp::GradScaler scaler({.enabled = setting.dtype == DType::f16});
  std::int64_t step = 0;
  TrainingRun run(o.run,
                  {{"model", model},
                   {"optimizer", optimizer},
                   {"schedule", schedule},
                   {"scaler", scaler},
                   {"loader", loader}},
                  step, "GPT-2");

  print_loss(model, held_out, setting, step);
  train::Throughput throughput({.window = 1});
  double fastest = 0;
  std::optional<std::clock_t> begin;
  while (!run.is_done()) {
    for (const data::Example& batch : loader) {
      const auto [loss, norm] = train_step(model, batch, setting, optimizer, schedule, scaler);
      throughput.update({.tokens = batch.data.numel()});
      run.end_step({{"loss", loss},
                    {"lr", optimizer.rates(0)[0]},
                    {"grad_norm", norm},
                    {"scale", scaler.scale_tensor()},
                    {"tokens_per_second", throughput.tokens_per_second()}});
      if (begin) {
        fastest = std::max(fastest, throughput.tokens_per_second());
      } else {  // the first step allocates and is not timed
        throughput.reset();
        begin = std::clock();
      }
      if (run.is_done()) break;
    }
  }
  if (fastest > 0)
    fmt::print("trained: {:.1f} tokens per second, {:.1f} in the fastest step, {:.2f} s of processor time\n",
               throughput.total_tokens_per_second(), fastest,
               static_cast<double>(std::clock() - *begin) / CLOCKS_PER_SEC);
  print_loss(model, held_out, setting, step);
}

void write_text(gpt2::GPT2& model, const gpt2::Tokenizer& tokenizer, std::vector<std::int64_t> tokens,
                const Options& o, const Setting& setting) {
  const std::size_t given = tokens.size();
  const amp::Autocast autocast = setting.autocast();
  model.eval();
  const double begin = train::steady_seconds();
  const std::clock_t used = std::clock();
  gpt2::generate(model, tokens,
                 {.count = o.generate,
                  .vocab_size = tokenizer.size(),
                  .end = tokenizer.end(),
                  .dtype = setting.dtype,
                  .sample = o.sample});
  const auto count = static_cast<double>(tokens.size() - given);
  fmt::print("generated {} tokens: {:.1f} per second, {:.2f} s of processor time\n{}\n", count,
             count / (train::steady_seconds() - begin),
             static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC, tokenizer.decode(tensor(tokens)));
}

void run(const Options& o) {
  const Setting setting = setting_of("gpt2", o.run);
  manual_seed(o.run.seed);
  const gpt2::Tokenizer tokenizer(o.tokenizer);
  gpt2::Config config = o.model;
  config.vocab_size = std::max(config.vocab_size, tokenizer.size());
  io::TensorFile::NamedTensors weights;
  if (!o.weights.empty()) {
    weights = gpt2::read_weights(o.weights);
    config = gpt2::config_of(weights, o.weights);
    config.dropout = o.model.dropout;
  }
  require(config.vocab_size >= tokenizer.size(), "gpt2",
          "weights of as many tokens as the tokenizer's " + std::to_string(tokenizer.size()),
          std::to_string(config.vocab_size), "pass the model's own tokenizer");
  gpt2::GPT2 model(config);
  if (!weights.empty()) model.load_state_dict(weights, {.cast = true});
  model.to(setting.device);
  std::vector<std::int64_t> prompt = tokenizer.encode(o.prompt);
  require(!prompt.empty(), "gpt2", "a --prompt", "none", "pass a word");
  Generator unused(0);
  static_cast<void>(nn::sample_logits(zeros({2}), o.sample, unused));  // refuses bad options now
  fmt::print("GPT-2: {} parameters, {} layers of {} heads, {} wide, {} tokens of context, {} on {}\n",
             model.num_parameters(), config.layers, config.heads, config.width, config.context,
             o.run.precision, to_string(setting.device));
  if (o.run.steps > 0) train_on(tensor(tokenizer.encode(text_of(o.run.data))), model, o, setting);
  if (o.generate > 0) write_text(model, tokenizer, std::move(prompt), o, setting);
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, "gpt2", "Trains a GPT-2 on a text, and writes text with it.", add_options,
                     run);
}
