// Leaving mezzo: trains a small convolutional network on digits that it draws, under bf16 autocast, and
// writes it as ONNX, in f32 and in f16, with images and scores beside it. run.py loads the files in
// onnxruntime and compares.
#include <cstdio>
#include <string>

#include "../command_line.h"
#include "../drawn_digits.h"
#include "mezzo/mezzo.h"

namespace {

using namespace mezzo;

struct Options {
  std::string output = ".", device = "auto";
  std::int64_t steps = 150, opset = 17;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--output", options.output, "folder of the files")->capture_default_str();
  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--steps", options.steps, "training steps")->capture_default_str();
  app.add_option("--opset", options.opset, "version of ONNX's list of ops, 17 to 23")->capture_default_str();
}

nn::Sequential classifier() {
  return nn::Sequential{nn::Conv2d(1, 8, 3, {.padding = 1}),
                        nn::BatchNorm2d(8),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(8, 16, 3, {.padding = 1}),
                        nn::BatchNorm2d(16),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::AdaptiveAvgPool2d(4),
                        nn::Flatten(),
                        nn::Linear(256, 10)};
}

/// Images [N, 1, 28, 28] in [0, 1], and their digits.
std::pair<Tensor, Tensor> batch_of(std::int64_t count, std::uint64_t seed, Device device) {
  const examples::DrawnDigits digits{count, seed};
  Tensors images, labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const data::Example example = digits.get(i);
    images.push_back(example.data.to(DType::f32) / 255);
    labels.push_back(example.target);
  }
  return {stack(images).to(device), stack(labels).to(device)};
}

void run(const Options& options) {
  const Device device = options.device == "auto" ? Device::best() : Device::parse(options.device);
  nn::Sequential net = classifier();
  net.to(device);
  optim::AdamW optimizer(net, {.lr = 3e-3});
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const auto [images, labels] = batch_of(32, static_cast<std::uint64_t>(step) + 1, device);
    Tensor loss;
    {
      const amp::Autocast autocast(device, DType::bf16);
      loss = cross_entropy(net(images), labels);
    }
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto [images, labels] = batch_of(64, 0, device);
  for (const DType precision : {DType::f32, DType::f16}) {
    const std::string name = options.output + "/digits." + std::string(info(precision).name);
    io::export_onnx(net, narrow(images, 0, 0, 2), name + ".onnx",
                    {.opset = options.opset,
                     .precision = precision,
                     .input_names = {"image"},
                     .output_names = {"scores"}});
    net.eval();
    const NoGrad no_grad;
    const amp::Autocast autocast(device, precision, {.enabled = precision != DType::f32});
    const Tensor scores = net(images);
    io::write_npz(name + ".npz", {{"image", images}, {"scores", scores}});
    std::printf("%s.onnx: %.0f %% of 64 digits\n", name.c_str(),
                100 * mean(eq(argmax(scores, 1), labels).to(DType::f32)).item());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, "export", "Trains a small network and writes it as ONNX.", add_options, run);
}
