// A training that is made in every process, or on every thread, of a group, and what came out of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/parallel_support.h"
#include "mezzo/data.h"
#include "mezzo/dist/sharded_optimizer.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace mezzo::test {

/// 8 numbers and one of 4 classes.
inline auto samples(std::int64_t n) {
  Generator generator(9);
  const Tensor x = uniform(-1, 1, {n, 8}, {}, generator);
  return data::TensorDataset(x, argmax(x.narrow(1, 0, 4), 1));
}

struct NetOptions {
  bool batch_norm = false;
  bool images = false;  ///< the numbers are images of 2 channels, with a norm of their own
  double dropout = 0;
  bool wide = false;  ///< with layers that run in float8 under amp_fp8
};
inline std::shared_ptr<nn::Sequential> make_net(const NetOptions& options = {}) {
  auto net = nn::make<nn::Sequential>();
  if (options.images) {
    net->push_back(nn::make<nn::Unflatten>(1, Shape{2, 2, 2}));
    net->push_back(nn::make<nn::BatchNorm2d>(2));
    net->push_back(nn::make<nn::Flatten>());
  }
  net->push_back(nn::make<nn::Linear>(8, 16));
  if (options.batch_norm) net->push_back(nn::make<nn::BatchNorm1d>(16));
  net->push_back(nn::make<nn::ReLU>());
  if (options.wide) {
    net->push_back(nn::make<nn::Linear>(16, 32));
    net->push_back(nn::make<nn::ReLU>());
    net->push_back(nn::make<nn::Linear>(32, 16));
  }
  if (options.dropout > 0) net->push_back(nn::make<nn::Dropout>(options.dropout));
  net->push_back(nn::make<nn::Linear>(16, 4));
  const NoGrad no_grad;
  Generator generator(3);
  for (const auto& [name, parameter] : net->named_parameters()) {
    if (parameter.dim() == 2) parameter.copy_(uniform(-0.5, 0.5, parameter.shape(), {}, generator));
    if (name.ends_with("bias")) parameter.fill_(0);
  }
  return net;
}

/// What came out of a training.
struct Outcome {
  std::vector<std::vector<std::uint8_t>> model, losses;
  std::vector<Tensor> parameters;
  std::vector<double> loss_values;
  std::map<std::string, double> results;
  std::int64_t skipped = 0, steps = 0, sample = 0;
};

/// What a training is made with.
struct Case {
  NetOptions net = {};
  std::int64_t count = 58, batch = 16, accumulate = 1;
  const char* precision = "fp32";
  std::optional<double> clip = {};
  double init_scale = 65536;
  bool sharded = false;
  train::Microbatch microbatch = {};
  const char* duration = "2ep";
  std::string folder = {};
  bool resume = false, as_vector = false;
};

inline Outcome train_once(const Case& setup, const train::Parallel& parallel) {
  Outcome outcome;
  const auto net = make_net(setup.net);
  optim::AdamW adam(*net, {.lr = 1e-2});
  data::DataLoader loader(samples(setup.count), {.batch_size = setup.batch, .shuffle = true, .seed = 2});
  std::vector<data::Example> list;
  if (setup.as_vector) {
    for (const auto& batch : loader) list.push_back(batch);
  }
  data::DataLoader eval_loader(samples(22), {.batch_size = 8});
  train::Trainer trainer({.model = net,
                          .loss = nn::CrossEntropyLoss(),
                          .optimizer = setup.sharded
                                           ? train::AnyOptimizer(dist::sharded<optim::AdamW>({.lr = 1e-2}))
                                           : train::AnyOptimizer(adam),
                          .schedule = optim::Schedule(optim::CosineAnnealingLROptions{.T_max = 8}),
                          .train_loader = setup.as_vector ? train::AnyLoader(list) : train::AnyLoader(loader),
                          .eval_loader = eval_loader,
                          .metrics = {{"accuracy", train::Accuracy()}, {"f1", train::F1Score(4)}},
                          .max_duration = setup.duration,
                          .precision = setup.precision,
                          .scaler = {.init_scale = setup.init_scale, .growth_interval = 2},
                          .microbatch = setup.microbatch,
                          .accumulate = setup.accumulate,
                          .clip_norm = setup.clip,
                          .callbacks = {train::on(train::Event::batch_end,
                                                  [&](train::State& state) {
                                                    outcome.losses.push_back(bytes_of(state.loss));
                                                    outcome.loss_values.push_back(state.loss.item());
                                                    outcome.skipped += state.step_result.skipped() ? 1 : 0;
                                                  })},
                          .progress_bar = false,
                          .save = {.folder = setup.folder, .background = false},
                          .resume = setup.resume,
                          .seed = 11,
                          .parallel = parallel});
  trainer.fit();
  outcome.model = bytes_of(net->parameters());
  for (const auto& [name, buffer] : net->named_buffers()) outcome.model.push_back(bytes_of(buffer));
  outcome.parameters = net->parameters();
  outcome.results = trainer.state().eval_results;
  outcome.steps = trainer.state().time.batch;
  outcome.sample = trainer.state().time.sample;
  return outcome;
}

}  // namespace mezzo::test
