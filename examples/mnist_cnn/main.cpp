// Reads handwritten digits: a convolution net with GroupNorm on MNIST, in any precision. Without files it
// learns digits that it draws itself.
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "../drawn_digits.h"
#include "../model_program.h"
#include "model.h"

namespace {

using namespace mezzo;

struct Options : examples::ModelOptions {
  Options() {
    duration = "4ep";
    lr = 3e-3;
  }
  bool low_precision_norms = false;
};

void add_options(CLI::App& app, Options& o) {
  examples::add_model_options(app, o,
                              "folder with MNIST's files, as they are or gzipped; of the t10k files alone a "
                              "fifth is held out");
  app.add_flag("--low-precision-norms", o.low_precision_norms, "norms run in 16 bits, too");
}

/// What is learned and what is held out.
struct Digits {
  data::Dataset<data::Example> train, test;
};

Digits digits_of(const Options& o) {
  if (o.data.empty()) return {examples::DrawnDigits{4000, 1}, examples::DrawnDigits{1000, 2}};
  const data::MNIST test(o.data, {.train = false});
  for (const char* name : {"/train-images-idx3-ubyte", "/train-images-idx3-ubyte.gz"})
    if (std::filesystem::exists(o.data + name)) return {data::MNIST(o.data), test};
  std::vector<std::int64_t> learned(static_cast<std::size_t>(test.size() * 4 / 5));
  std::vector<std::int64_t> held_out(static_cast<std::size_t>(test.size()) - learned.size());
  std::iota(learned.begin(), learned.end(), 0);
  std::iota(held_out.begin(), held_out.end(), learned.size());
  return {data::Subset(test, learned), data::Subset(test, held_out)};
}

void run(const Options& o) {
  manual_seed(o.seed);
  const Device device = examples::device_of(o);
  const auto [train, test] = digits_of(o);
  const auto prepare = data::Compose(data::ToDType(DType::f32), data::Normalize({0.1307}, {0.3081}));
  data::DataLoader train_loader(
      data::transform(train, prepare),
      {.batch_size = o.batch, .shuffle = true, .seed = o.seed, .num_workers = o.workers, .device = device});
  data::DataLoader test_loader(data::transform(test, prepare),
                               {.batch_size = 250, .num_workers = o.workers, .device = device});

  const auto net = models::conv_net();
  net->to(device);
  optim::AdamW optimizer(*net, {.lr = o.lr});
  std::vector<train::AnyCallback> algorithms;
  if (o.low_precision_norms) algorithms.emplace_back(train::algorithms::LowPrecisionGroupNorm{});
  train::Trainer trainer({.model = net,
                          .loss = nn::CrossEntropyLoss(),
                          .optimizer = optimizer,
                          .schedule = examples::warmup_cosine(o, train_loader.size()),
                          .train_loader = train_loader,
                          .eval_loader = test_loader,
                          .metrics = {{"accuracy", train::Accuracy()}},
                          .max_duration = o.duration,
                          .eval_interval = o.eval_interval,
                          .precision = examples::precision_of(o),
                          .algorithms = algorithms,
                          .callbacks = examples::callbacks_of(o, {{"model", "conv_net"}}),
                          .sinks = examples::sinks_of(o, "mnist_cnn"),
                          .save = examples::save_of(o),
                          .resume = !o.resume.empty(),
                          .profile = examples::profile_of(o),
                          .parallel = dist::data_parallel()});
  trainer.fit();
  examples::finish(o, {.wanted = 97}, "accuracy", trainer.state());
}

}  // namespace

int main(int argc, char** argv) {
  return run_program<Options>(argc, argv, "mnist_cnn", "Trains a convolution net to read handwritten digits.",
                              add_options, run, examples::end_processes);
}
