// Training steps of whole models: forward, loss, backward, optimizer. Each in f32, under bf16 autocast, and
// under f16 autocast with GradScaler, and in float8; those with layer or group norms also with low-precision
// ones, and a deep one also with its blocks checkpointed.
#include "cases/models.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cases/program.h"
#include "mezzo/profile/profiler.h"

namespace bench {
namespace {

/// A model with what a step of it needs.
struct Training {
  std::shared_ptr<nn::Layer> net;
  Tensor input, target;
  std::shared_ptr<optim::Optimizer> optimizer = {};
  amp::GradScaler scaler{};

  [[nodiscard]] Tensor loss() const {
    const Tensor y = net->forward(input);
    if (target.dtype() != DType::i64) return mse_loss(y, target);
    return cross_entropy(y.reshape({-1, y.size(-1)}), target);
  }
  [[nodiscard]] Tensor mixed_loss(DType dtype, bool fp8 = false) const {
    const amp::Autocast autocast(target_device, dtype, {.fp8 = fp8});
    return loss();
  }
  void step() {
    loss().backward();
    optimizer->step();
    optimizer->zero_grad();
  }
  void mixed_step(DType dtype, bool fp8 = false) {
    mixed_loss(dtype, fp8).backward();
    optimizer->step();
    optimizer->zero_grad();
  }
  void scaled_step(DType dtype) {
    scaler.scale(mixed_loss(dtype)).backward();
    scaler.step(*optimizer);
    scaler.update();
    optimizer->zero_grad();
  }
};

using Make = std::function<std::shared_ptr<Training>()>;

/// Worker::add_work's lines for a step in f32; one under autocast multiplies as often. The parameters'
/// gradients are written once, and the optimizer reads and writes parameters and moments once.
std::vector<std::string> work_of(const Make& make) {
  const auto training = make();
  profile::Profiler profiler({.warmup = 0, .steps = 1, .shapes = true, .rates = false});
  {
    const auto step = profiler.step();
    training->step();
  }
  std::int64_t elements = 0;
  for (const Tensor& parameter : training->net->parameters()) elements += parameter.numel();
  const bool adam = dynamic_cast<optim::AdamW*>(training->optimizer.get()) != nullptr;
  // The gradient is written; it and the parameter are read, this one is written; so are the moments.
  const std::int64_t passes = 1 + 3 + (adam ? 4 : 2);
  std::vector<std::string> lines{"moved " + std::to_string(elements * passes * std::int64_t{sizeof(float)})};
  for (const profile::OpRow& row : profiler.report().ops) {
    if (row.flop > 0)
      lines.push_back(row.op + '\t' + row.shapes + '\t' + std::to_string(row.calls) + '\t' +
                      std::to_string(row.flop));
  }
  return lines;
}

std::shared_ptr<Training> on_target(Training training, bool with_adamw) {
  training.net->to(target_device);
  const std::vector<Tensor> parameters = training.net->parameters();
  if (with_adamw)
    training.optimizer = std::make_shared<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-3});
  else
    training.optimizer = std::make_shared<SGD>(parameters, optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  return std::make_shared<Training>(std::move(training));
}

/// The same model with low-precision norms.
Make with_low_precision_norms(const Make& make, const char* precision) {
  return [make, precision] {
    auto training = make();
    amp::apply_low_precision_layernorm(*training->net, precision);
    amp::apply_low_precision_groupnorm(*training->net, precision);
    return training;
  };
}

void add_model(Worker& worker, const std::string& name, bool has_norms, const Make& make) {
  worker.add(name + "/f32", [make] { return [training = make()] { training->step(); }; });
  if (on_cpu()) worker.add_work(name, [make] { return work_of(make); });
  const auto add = [&](const std::string& suffix, const Make& made, bool scaled, DType dtype) {
    worker.add(name + suffix, [made, scaled, dtype]() -> Body {
      const auto training = made();
      if (scaled) return [training, dtype] { training->scaled_step(dtype); };
      return [training, dtype] { training->mixed_step(dtype); };
    });
  };
  add("/bf16", make, false, kBF16);
  add("/f16_scaler", make, true, kF16);
  worker.add(name + "/fp8", [make] { return [training = make()] { training->mixed_step(kBF16, true); }; });
  if (!has_norms) return;
  add("_low_norms/bf16", with_low_precision_norms(make, "amp_bf16"), false, kBF16);
  add("_low_norms/f16_scaler", with_low_precision_norms(make, "amp_fp16"), true, kF16);
}

void add_mlp(Worker& worker, const std::string& name, const std::vector<std::int64_t>& sizes,
             std::int64_t batch) {
  add_model(worker, name, false, [sizes, batch] {
    auto net = nn::make<nn::Sequential>();
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (i > 0) net->push_back(nn::ReLU());
      net->push_back(nn::Linear(sizes[i], sizes[i + 1]));
    }
    return on_target({net, normal({batch, sizes.front()}, kF32), normal({batch, sizes.back()}, kF32)}, false);
  });
}

Make gpt(const GptSizes& sizes, std::int64_t batch) {
  return [sizes, batch] {
    return on_target({nn::make<Gpt>(sizes),
                      integers(sizes.vocabulary, batch * sizes.context).reshape({batch, sizes.context}),
                      integers(sizes.vocabulary, batch * sizes.context)},
                     true);
  };
}

void add_gpt(Worker& worker, const std::string& name, const GptSizes& sizes, std::int64_t batch) {
  add_model(worker, name, true, gpt(sizes, batch));
}

/// Enough blocks and tokens that what they save is most of the memory.
void add_checkpointed(Worker& worker) {
  const Make plain = gpt({.layers = 12, .width = 256, .heads = 8, .context = 256}, 8);
  add_model(worker, "gpt_12x256", false, plain);
  add_model(worker, "gpt_12x256_checkpointed", false, [plain] {
    auto training = plain();
    nn::checkpoint_layers<Block>(*training->net);
    return training;
  });
}

void add_images(Worker& worker) {
  for (const bool last : {false, true}) {
    const auto images = [last](const std::vector<std::int64_t>& shape) {
      const Tensor x = normal(shape, kF32);
      return last ? channels_last(x) : x;
    };
    const std::string suffix = last ? "_channels_last" : "";
    add_model(worker, "conv_net" + suffix, true, [images] {
      return on_target({conv_net(), images({128, 1, 28, 28}), integers(10, 128)}, false);
    });
    add_model(worker, "resnet18" + suffix, false, [images] {
      return on_target({resnet18(), images({16, 3, 32, 32}), integers(10, 16)}, false);
    });
  }
  // For the memory: at 16 images half of it is weights, their gradients and momentum, here it is activations.
  add_model(worker, "resnet18_batch_128", false, [] {
    return on_target({resnet18(), normal({128, 3, 32, 32}, kF32), integers(10, 128)}, false);
  });
  add_model(worker, "resnet9_channels_last", false, [] {
    return on_target({models::resnet9(), channels_last(normal({16, 3, 32, 32}, kF32)), integers(10, 16)},
                     false);
  });
}

/// Sizes that vary from step to step, for the memory: sequences of 20 to 399 places in training, and images
/// of 20 to 1,019 pixels without gradients. A call is 80 steps.
void add_varying(Worker& worker) {
  const auto add = [&](const std::string& name, const auto& make, const auto& step) {
    worker.add(name + "/f32", [make, step]() -> Body {
      const auto training = on_target({make(), {}, {}}, false);
      return [training, step, i = std::int64_t{0}]() mutable {
        for (int steps = 0; steps < 80; ++steps) step(*training, i++);
      };
    });
  };
  const auto sequences = [](std::int64_t batch) {
    return [batch](Training& training, std::int64_t i) {
      mean(training.net->forward(normal({20 + 97 * i % 380, batch, 128}, kF32))).backward();
      training.optimizer->step();
      training.optimizer->zero_grad();
    };
  };
  add(
      "lstm_lengths", [] { return nn::make<SequenceLstm>(); }, sequences(16));
  add(
      "transformer_lengths", [] { return nn::make<nn::TransformerEncoderLayer>(128, 4); }, sequences(4));
  const auto images = [](Training& training, std::int64_t i) {
    const NoGrad no_grad;
    const std::int64_t pixels = 20 + 337 * i % 1000;
    static_cast<void>(training.net->forward(normal({1, 3, pixels, pixels}, kF32)));
  };
  const auto convolutions = [] {
    return nn::make<nn::Sequential>(nn::Conv2d(3, 16, 3), nn::ReLU(), nn::Conv2d(16, 16, 3));
  };
  add("convolutions_sizes", convolutions, images);
}

void add_models(Worker& worker) {
  add_mlp(worker, "mlp_8_16_16_1", {8, 16, 16, 1}, 512);
  add_mlp(worker, "mlp_784_512_512_10", {784, 512, 512, 10}, 128);
  add_mlp(worker, "mlp_4096", {4096, 4096, 4096, 4096}, 128);
  for (const std::int64_t width : {1024, 2048, 4096, 8192})
    add_mlp(worker, "mlp_" + std::to_string(width) + "_batch_4096", {width, width, width, width}, 4096);
  for (const std::int64_t batch : {1, 8, 32})
    add_mlp(worker, "policy_batch_" + std::to_string(batch), {8, 64, 64, 4}, batch);
  add_gpt(worker, "gpt_4x128", {.layers = 4, .width = 128, .heads = 4, .context = 128}, 8);
  add_gpt(worker, "gpt_6x384", {.layers = 6, .width = 384, .heads = 6, .context = 256}, 4);
  add_gpt(worker, "gpt_6x2048", {.layers = 6, .width = 2048, .heads = 16, .context = 512}, 8);
  add_checkpointed(worker);
  add_images(worker);
  add_varying(worker);
  add_model(worker, "lstm", false, [] {
    return on_target({nn::make<LstmNet>(), normal({64, 32, 64}, kF32), integers(10, 32)}, true);
  });
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv, bench::add_models); }
