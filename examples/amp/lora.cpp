// Fine-tuning with LoRA: a small GPT has learned one kind of sentence; its weights, in bf16 and frozen, stay
// as they are, and adapters in f32, a twelfth as many parameters, learn another kind. Merged they cost
// nothing.
#include <cstdio>
#include <exception>
#include <string>

#include <mezzo/data.h>
#include <mezzo/mezzo.h>

#include "../char_gpt/model.h"
#include "../char_gpt/text.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kContext = 32;

/// Sentences in which every `from` is a `to`.
std::string sentences(const std::string& from = "", const std::string& to = "") {
  std::string text = examples::made_text(400, 1);
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// Trains what requires grad in a region of bf16; returns the mean loss of the last ten of `steps` batches.
double train(models::Gpt& net, const Tensor& tokens, double lr, std::int64_t steps) {
  data::DataLoader batches(examples::Windows{tokens, kContext, true},
                           {.batch_size = 16, .drop_last = true, .device = net.head->weight.device()});
  optim::AdamW optimizer(net, {.lr = lr});
  double last = 0;
  for (std::int64_t step = 0; step < steps;) {
    for (const data::Example& batch : batches) {
      if (++step > steps) break;
      Tensor loss;
      {
        const amp::Autocast autocast(net.head->weight.device(), DType::bf16);
        loss = cross_entropy(net(batch.data).flatten(0, 1), batch.target.flatten());
      }
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      if (step > steps - 10) last += loss.item() / 10;
    }
  }
  return last;
}

int run(Device device) {
  manual_seed(0);
  const std::string first = sentences(), second = sentences(" the ", " no more than one ");
  const data::CharTokenizer characters(first + second);
  models::Gpt net(
      {.layers = 2, .width = 64, .heads = 4, .context = kContext, .vocabulary = characters.vocab_size()});
  net.to(device);
  const double learned = train(net, characters.encode(first), 5e-3, 150);
  std::printf("base: loss %.3f\n", learned);

  net.to(DType::bf16).eval();
  const Tensor base = clone(net.head->weight.detach());
  const auto weights = net.num_parameters();
  nn::apply_lora(net, {.rank = 4, .alpha = 8, .targets = {"qkv", "out", "up", "down"}});
  const auto adapters = net.num_parameters() - weights;
  const double before = train(net, characters.encode(second), 0, 10);
  const double after = train(net, characters.encode(second), 5e-3, 150);
  std::printf("adapters: %.1f %% of the parameters, loss of other sentences %.3f before, %.3f after\n",
              100.0 * static_cast<double>(adapters) / static_cast<double>(weights), before, after);

  const NoGrad no_grad;
  const Tensor some = characters.encode(second).narrow(0, 0, kContext).unsqueeze(0).to(device);
  const Tensor apart = net(some).to(DType::f32);
  nn::merge_lora(net);  // nn::unmerge_lora undoes it; train::save_adapter writes PEFT's files
  const double off = max(abs(net(some).to(DType::f32) - apart)).item() / max(abs(apart)).item();
  nn::remove_lora(net);
  std::printf("merged: results off by %.4f of the largest\n", off);
  // Weights and results of bf16 are off by 2^-9 each.
  if (after < before / 2 && equal(base, net.head->weight) && off < 8 * 0x1p-9) return 0;
  std::fprintf(stderr, "lora: expected half the loss, a base as it was, and the same results when merged\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("lora", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
