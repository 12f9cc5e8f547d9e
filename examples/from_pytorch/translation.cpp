// translation: a transformer learns a language whose sentences stand in reverse.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

constexpr int kPad = 0, kBegin = 1, kEnd = 2, kWords = 20, kLength = 8, kModel = 32;

struct PositionalEncoding final : nn::Layer {
  PositionalEncoding() {
    const Tensor position = arange(kLength + 1).to(DType::f32).unsqueeze(1);
    const Tensor angle = position * exp(arange(0, kModel, 2).to(DType::f32) * (-std::log(10000.0) / kModel));
    table[{Slice(), Slice(0, None, 2)}] = sin(angle);
    table[{Slice(), Slice(1, None, 2)}] = cos(angle);
  }

  nn::Buffer table{*this, "table", zeros({kLength + 1, kModel})};

  Tensor forward(const Tensor& x) override { return x + table[Slice(0, x.size(1))]; }
};

struct Seq2SeqTransformer final : nn::Module {
  nn::Child<nn::Transformer> transformer{*this, "transformer",
                                         nn::Transformer(kModel, 4,
                                                         {.num_encoder_layers = 2,
                                                          .num_decoder_layers = 2,
                                                          .dim_feedforward = 64,
                                                          .dropout = 0,
                                                          .batch_first = true})};
  nn::Child<nn::Linear> generator{*this, "generator", nn::Linear(kModel, kWords)};
  nn::Child<nn::Embedding> src_tok_emb{*this, "src_tok_emb", nn::Embedding(kWords, kModel)};
  nn::Child<nn::Embedding> tgt_tok_emb{*this, "tgt_tok_emb", nn::Embedding(kWords, kModel)};
  nn::Child<PositionalEncoding> positional_encoding{*this, "positional_encoding", PositionalEncoding()};

  Tensor forward(const Tensor& src, const Tensor& tgt) {
    const Tensor src_emb = positional_encoding(src_tok_emb(src) * std::sqrt(kModel));
    const Tensor tgt_emb = positional_encoding(tgt_tok_emb(tgt) * std::sqrt(kModel));
    const nn::EncoderDecoderMasks masks{.src_key_padding_mask = src == kPad,
                                        .tgt_key_padding_mask = tgt == kPad,
                                        .memory_key_padding_mask = src == kPad,
                                        .tgt_is_causal = true};
    return generator(transformer(src_emb, tgt_emb, masks));
  }
};

struct Pairs {
  Tensor src, tgt;
};

// Sentences of 3 to 7 words; their translations have other words, the last one first.
Pairs pairs(int count) {
  const Tensor words = twin::randint(kWords - 3, {count, kLength});
  const Tensor lengths = twin::randint(kLength - 3, {count, 1}) + 3;
  const Tensor position = arange(kLength);
  const Tensor reversed = words.gather(1, (lengths - 1 - position).clamp_min(0));
  const Tensor translated = remainder(reversed * 5 + 2, kWords - 3) + 3;
  const Tensor tgt = translated.masked_fill(position == lengths, kEnd).masked_fill(position > lengths, kPad);
  return {(words + 3).masked_fill(position >= lengths, kPad), pad(tgt, {1, 0}, PadMode::constant, kBegin)};
}

double train_step(const twin::Args& args, Seq2SeqTransformer& model, optim::Adam& optimizer,
                  amp::GradScaler& scaler) {
  const auto [src, tgt] = pairs(32);
  const Tensor tgt_input = tgt[{Slice(), Slice(0, -1)}], tgt_out = tgt[{Slice(), Slice(1)}];
  optimizer.zero_grad();
  Tensor loss;
  {
    amp::Autocast autocast(args.device, args.dtype, {.enabled = args.amp});
    const Tensor logits = call(model, src.to(args.device), tgt_input.to(args.device));
    loss = cross_entropy(logits.flatten(0, 1), tgt_out.flatten().to(args.device), {.ignore_index = kPad});
  }
  scaler.scale(loss).backward();
  scaler.step(optimizer);
  scaler.update();
  return loss.item();
}

// Word after word, each the likeliest one.
Tensor greedy_decode(const twin::Args& args, Seq2SeqTransformer& model, const Tensor& src) {
  Tensor words = full({src.size(0), 1}, kBegin, {.dtype = DType::i64, .device = args.device});
  for (int i = 0; i < kLength; ++i) {
    const Tensor logits = call(model, src.to(args.device), words);
    words = cat({words, logits[{Slice(), Slice(-1)}].argmax(-1)}, 1);
  }
  return words.cpu();
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 150, .mixed = true});
  Seq2SeqTransformer model;
  twin::init(model);
  model.to(args.device);
  optim::Adam optimizer(model, {.lr = 2e-3, .eps = 1e-9});
  amp::GradScaler scaler({.enabled = args.dtype == DType::f16});
  for (int step = 0; step < args.steps; ++step) {
    const double loss = train_step(args, model, optimizer, scaler);
    if (step % 6 == 0) std::printf("step %d loss %.6g\n", step, loss);
  }
  model.eval();
  NoGrad no_grad;
  const auto [src, tgt] = pairs(50);
  const Tensor correct = (greedy_decode(args, model, src) == tgt)[tgt > kBegin];
  std::printf("words translated correctly %.3g\n", correct.to(DType::f32).mean().item());
}
