// The steps that docs/cuda_steps.md predicts.
#include <functional>
#include <memory>
#include <utility>

#include "mezzo/core/cuda.h"
#include "mezzo/mezzo.h"
#include "step_table/table.h"

namespace mezzo::step_table {

namespace {

/// The launches of one step, after one that allocates, chooses algorithms and makes 16-bit copies.
std::vector<emulated_cuda::LedgerEntry> record(const std::function<void()>& step) {
  emulated_cuda::leave_out_products();
  step();
  synchronize(Device::cuda());
  emulated_cuda::keep_ledger(true);
  step();
  synchronize(Device::cuda());
  auto entries = emulated_cuda::take_ledger();
  emulated_cuda::keep_ledger(false);
  return entries;
}

/// Training of `net` with f16, GradScaler and SGD on data of this shape. As zero_grad() follows, unscaled
/// gradients are not written back.
std::vector<emulated_cuda::LedgerEntry> train_in_f16(nn::Sequential& net, const Shape& shape) {
  net.to(Device::cuda());
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  amp::GradScaler scaler({.write_unscaled = false});
  const Tensor x = zeros(shape, {.device = Device::cuda()}),
               target = zeros(shape, {.device = Device::cuda()});
  return record([&] {
    const auto loss = [&] {
      const amp::Autocast autocast(Device::cuda(), DType::f16);
      return mse_loss(net.forward(x), target);
    };
    scaler.scale(loss()).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  });
}

Step seed() {
  constexpr std::int64_t kBatch = 512, kWidth = 4096;
  nn::Sequential net{nn::make<nn::Linear>(kWidth, kWidth), nn::make<nn::ReLU>(),
                     nn::make<nn::Linear>(kWidth, kWidth), nn::make<nn::ReLU>(),
                     nn::make<nn::Linear>(kWidth, kWidth)};
  return {"The seed's step",
          "Three Linear layers of 4096, batch 512, autocast in f16 with GradScaler, mse_loss, SGD. The\n"
          "scaler leaves gradients scaled, as zero_grad() follows (`write_unscaled = false`; else the\n"
          "update writes 201 MB more, in 47 us). The goal is 430 us eager and 400 us captured.",
          train_in_f16(net, {kBatch, kWidth})};
}

Step convolution() {
  nn::Sequential net{nn::make<nn::Conv2d>(64, 64, 3, nn::ConvLayerOptions{.padding = 1, .bias = false}),
                     nn::make<nn::GroupNorm>(32, 64), nn::make<nn::ReLU>()};
  return {"Convolution and GroupNorm",
          "One block as a ResNet has them: 64 channels of 56 x 56, batch 4, Conv2d 3 x 3, GroupNorm of 32\n"
          "groups, ReLU; autocast in f16 with GradScaler, mse_loss, SGD.",
          train_in_f16(net, {4, 64, 56, 56})};
}

Step gpt_block() {
  constexpr std::int64_t kTokens = 128, kWidth = 768;
  nn::TransformerEncoderLayerOptions options;
  options.dim_feedforward = 4 * kWidth, options.dropout = 0, options.batch_first = options.norm_first = true;
  options.activation = [](const Tensor& x) { return gelu(x); };
  nn::TransformerEncoderLayer block(kWidth, 12, options);
  block.to(Device::cuda());
  optim::AdamW optimizer(block.parameters(), {.lr = 1e-3});
  const Tensor x = zeros({1, kTokens, kWidth}, {.device = Device::cuda()});
  return {
      "A GPT block of 768",
      "Width 768, 12 heads, causal, feed-forward 3072 with gelu, norms first; 128 tokens, as the emulated\n"
      "device takes long for more. Autocast in bf16, the sum of the result as the loss, AdamW.",
      record([&] {
        const auto loss = [&] {
          const amp::Autocast autocast(Device::cuda(), DType::bf16);
          return sum(block.forward(x, {.is_causal = true}));
        };
        loss().backward();
        optimizer.step();
        optimizer.zero_grad();
      })};
}

}  // namespace

std::vector<Step> run_steps() {
  std::vector<Step> steps;
  steps.push_back(seed());
  steps.push_back(gpt_block());
  steps.push_back(convolution());
  return steps;
}

}  // namespace mezzo::step_table
