// word_language_model: an LSTM learns which word follows.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

constexpr int kWords = 50, kEmbedding = 32, kHidden = 64, kLayers = 2, kBatch = 16, kSteps = 20;

struct Model final : nn::Module {
  nn::Child<twin::Dropout> drop{*this, "drop", twin::Dropout(0.2)};
  nn::Child<nn::Embedding> encoder{*this, "encoder", nn::Embedding(kWords, kEmbedding)};
  nn::Child<nn::LSTM> rnn{*this, "rnn", nn::LSTM(kEmbedding, kHidden, {.num_layers = kLayers})};
  nn::Child<nn::Linear> decoder{*this, "decoder", nn::Linear(kHidden, kWords)};

  nn::LSTMOutput forward(const Tensor& input, const LstmState& hidden) {
    const Tensor embedded = drop(encoder(input));
    const auto [output, state] = rnn(embedded, hidden);
    return {decoder(drop(output)).view({-1, kWords}), state};
  }
};

// Sentences: after each word three others may come, of which the first comes most often.
Tensor corpus(int length) {
  const auto followers = twin::randint(kWords, {kWords, 3}).to_vector<std::int64_t>();
  const auto choices = twin::randint(6, {length}).to_vector<std::int64_t>();
  std::vector<std::int64_t> words{0};
  for (const std::int64_t choice : choices)
    words.push_back(followers[words.back() * 3 + (choice < 4 ? 0 : choice - 3)]);
  return tensor(words);
}

Tensor batchify(const Tensor& data) {
  const std::int64_t rows = data.numel() / kBatch;
  return data.narrow(0, 0, rows * kBatch).view({kBatch, rows}).t().contiguous();
}

LstmState repackage_hidden(const LstmState& hidden) { return {hidden.h.detach(), hidden.c.detach()}; }

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 100, .mixed = true});
  const Tensor data = batchify(corpus(20000)).to(args.device);
  Model model;
  twin::init(model);
  model.to(args.device);
  optim::SGD optimizer(model, {.lr = 5.0});
  amp::GradScaler scaler({.enabled = args.dtype == DType::f16});
  LstmState hidden;
  for (int step = 0; step < args.steps; ++step) {
    const std::int64_t at = step * kSteps % (data.size(0) - kSteps);
    const Tensor input = data[Slice(at, at + kSteps)];
    const Tensor target = data[Slice(at + 1, at + 1 + kSteps)].flatten();
    optimizer.zero_grad();
    Tensor loss;
    {
      amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
      const auto [output, state] = call(model, input, hidden);
      loss = cross_entropy(output, target);
      hidden = repackage_hidden(state);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    optim::clip_grad_norm_(model.parameters(), 0.25);
    scaler.step(optimizer);
    scaler.update();
    if (step % 5 == 0)
      std::printf("step %d loss %.6g perplexity %.6g\n", step, loss.item(), exp(loss).item());
  }
}
