// A whole training run by hand: batches made by worker threads, mixed precision, metrics, a log in four
// forms, and checkpoints from which the same command goes on after it was stopped. On MNIST's files, or
// without them on digits that it draws itself.
#include <mezzo/data.h>
#include <mezzo/mezzo.h>
#include <mezzo/train.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "../drawn_digits.h"

using namespace mezzo;

namespace {

struct Options {
  std::string data, out = "run", device;
  int epochs = 3, workers = 2;
  std::int64_t stop = 0;
};

data::Dataset<data::Example> digits(const Options& options, bool train) {
  if (!options.data.empty()) return data::MNIST(options.data, {.train = train});
  return examples::DrawnDigits{train ? 4000 : 1000, train ? 1U : 2U};
}

// program begins
nn::Sequential small_cnn() {
  return nn::Sequential{nn::Conv2d(1, 8, 5, {.stride = 2}),
                        nn::BatchNorm2d(8),
                        nn::ReLU(),
                        nn::Conv2d(8, 16, 3, {.stride = 2}),
                        nn::ReLU(),
                        nn::Flatten(),
                        nn::Dropout(0.1),
                        nn::Linear(16 * 5 * 5, 10)};
}

int run(const Options& options) {
  const Device device = options.device.empty() ? Device::best() : Device::parse(options.device);
  const auto prepare = data::Compose(data::ToDType(DType::f32), data::Normalize({0.1307}, {0.3081}));
  data::DataLoader train_loader(
      data::transform(digits(options, true), data::Compose(data::RandomRotation(10), prepare)),
      {.batch_size = 64, .shuffle = true, .num_workers = options.workers, .device = device});
  data::DataLoader test_loader(data::transform(digits(options, false), prepare),
                               {.batch_size = 250, .num_workers = options.workers, .device = device});

  nn::Sequential net = small_cnn();
  net.to(device);
  optim::AdamW optimizer(net, {.lr = 3e-3});
  const std::int64_t steps = options.epochs * train_loader.size();
  optim::WarmupCosine schedule(optimizer, {.warmup_steps = steps / 10, .total_steps = steps});
  amp::GradScaler scaler;
  std::int64_t step = 0;

  train::CheckpointManager checkpoints(options.out,
                                       {{"model", net},
                                        {"optimizer", optimizer},
                                        {"schedule", schedule},
                                        {"scaler", scaler},
                                        {"loader", train_loader},
                                        {"random", default_generator()},
                                        {"step", step}},
                                       {.keep_last = 2, .best = train::Best::highest});
  train::Logger logger({train::ProgressBar({.total = steps, .show = {"loss", "accuracy", "scale"}}),
                        train::CSVSink(options.out + "/log.csv", {.every = 10}),
                        train::TensorBoardSink(options.out, {.every = 10}),
                        train::HTMLReport(options.out + "/report.html", {.title = "Digits"})});
  if (checkpoints.load_latest()) logger.resume(step);  // nothing is there at first

  while (train_loader.epoch() < static_cast<std::uint64_t>(options.epochs)) {
    for (const auto& [images, labels] : train_loader) {
      Tensor loss;
      {
        amp::Autocast autocast(device, DType::f16);
        loss = cross_entropy(net(images), labels);
      }
      scaler.scale(loss).backward();
      const auto result = scaler.step(optimizer);
      schedule.step(result);
      scaler.update();
      optimizer.zero_grad();
      ++step;
      logger.log(step, {{"loss", loss}, {"lr", optimizer.rates(0)[0]}, {"scale", scaler.scale_tensor()}});
      if (step % 50 == 0) checkpoints.save(step);
      if (step == options.stop) return 0;  // as if it had been killed
    }
    const double accuracy = train::evaluate(net, test_loader, {{"accuracy", train::Accuracy()}})["accuracy"];
    logger.log(step, {{"accuracy", accuracy}}, {.all_sinks = true});
    checkpoints.save(step, accuracy);
  }
  return 0;
}
// program ends

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small convolution net on digits, with checkpoints and logs in a folder.");
  app.add_option("--data", options.data, "folder with MNIST's four files, as they are or gzipped");
  app.add_option("--out", options.out, "folder of checkpoints and logs")->capture_default_str();
  app.add_option("--device", options.device, "cpu or cuda:N; the best there is, unless it is said");
  app.add_option("--epochs", options.epochs)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--workers", options.workers, "threads that make batches")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--stop", options.stop, "end at this step; the same command without it goes on");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
