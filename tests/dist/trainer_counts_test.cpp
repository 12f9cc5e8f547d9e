// What a trainer counts over several processes: weights of losses, metrics of the training, whose data it is.
#include <gtest/gtest.h>

#include "dist/trainer_support.h"

namespace mezzo {
namespace {

using dist::Group;
using test::make_net;
using test::run_ranks;
using test::samples;

TEST(ParallelTrainerCounts, IgnoredTargetsCountAsInOneProcess) {
  // [N, 4, 2] outputs for [N, 2] targets, of which those of the first samples are ignored.
  const auto run = [](const train::Parallel& parallel, std::int64_t accumulate) {
    const auto net = nn::make<nn::Sequential>(nn::Linear(8, 8), nn::Unflatten(1, Shape{4, 2}));
    const NoGrad no_grad;
    Generator generator(3);
    for (const Tensor& parameter : net->parameters())
      parameter.copy_(uniform(-0.5, 0.5, parameter.shape(), {}, generator));
    std::vector<data::Example> batches;
    for (int i = 0; i < 4; ++i) {
      Tensor target = randint(0, 4, {6, 2}, {}, generator);
      target.narrow(0, 0, i + 1).fill_(-100);
      batches.push_back({uniform(-1, 1, {6, 8}, {}, generator), target});
    }
    optim::SGD sgd(*net, {.lr = 0.5});
    const EnableGrad enable_grad;
    train::TrainerOptions options{.model = *net, .loss = nn::CrossEntropyLoss(), .optimizer = sgd};
    options.train_loader = batches;
    options.eval_loader = batches;
    options.metrics = {{"accuracy", train::Accuracy()}};
    options.accumulate = accumulate;
    options.max_duration = "2ep";
    options.progress_bar = false;
    options.parallel = parallel;
    train::Trainer trainer(options);
    trainer.fit();
    std::vector<double> values{trainer.state().loss.item(), trainer.state().eval_results.at("loss")};
    for (const Tensor& parameter : net->parameters()) {
      for (const double value : parameter.to_vector<double>()) values.push_back(value);
    }
    return values;
  };
  for (const std::int64_t accumulate : {1, 2}) {
    const std::vector<double> one = run({}, accumulate);
    for (const int p : {2, 3, 4}) {
      for (const int parts : {0, 4}) {
        if (parts % p != 0) continue;
        std::vector<std::vector<double>> all(static_cast<std::size_t>(p));
        run_ranks(p, [&](const Group& group) {
          all[static_cast<std::size_t>(group.rank())] =
              run(dist::data_parallel({.group = group, .virtual_parts = parts}), accumulate);
        });
        for (const auto& values : all) {
          EXPECT_EQ(values, all[0]);
          ASSERT_EQ(values.size(), one.size());
          for (std::size_t i = 0; i < one.size(); ++i)
            EXPECT_NEAR(values[i], one[i], 2e-6) << p << " " << parts;
        }
      }
    }
  }
}

TEST(ParallelTrainerCounts, VectorsThatDifferByRankAreRefusedOnAll) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](const Group& group) {
    const auto net = make_net();
    optim::AdamW adam(*net, {.lr = 1e-2});
    Generator generator(static_cast<std::uint64_t>(group.rank() + 1));
    const std::vector<data::Example> own{{randn({8, 8}, {}, generator), randint(0, 4, {8}, {}, generator)}};
    train::Trainer trainer({.model = *net,
                            .loss = nn::CrossEntropyLoss(),
                            .optimizer = adam,
                            .train_loader = own,
                            .max_duration = "1ep",
                            .progress_bar = false,
                            .parallel = dist::data_parallel({.group = group})});
    try {
      trainer.fit();
    } catch (const ValueError& error) {
      texts[static_cast<std::size_t>(group.rank())] = error.what();
    }
  });
  for (const std::string& text : texts) {
    EXPECT_EQ(text,
              "Trainer: expected the same batches on all ranks, of which each takes its share, got batches "
              "of other data "
              "on each; give all ranks the whole data, in one order");
  }
}

TEST(ParallelTrainerCounts, TrainMetricsAreThoseOfAllRanks) {
  const auto run = [](const train::Parallel& parallel) {
    const auto net = make_net();
    optim::AdamW adam(*net, {.lr = 1e-2});
    data::DataLoader loader(samples(50), {.batch_size = 16});
    std::vector<double> values;
    auto metrics = train::callbacks::TrainMetrics({{"accuracy", train::Accuracy()}});
    train::TrainerOptions options{.model = *net, .loss = nn::CrossEntropyLoss(), .optimizer = adam};
    options.train_loader = loader;
    options.max_duration = "1ep";
    options.progress_bar = false;
    options.parallel = parallel;
    options.callbacks = {std::move(metrics)};
    struct Noting final : train::Sink {
      explicit Noting(std::vector<double>& list) : list_(list) {}
      void write(const train::LogRecord& record) override {
        for (const train::LogScalar& value : record.values) {
          if (value.name == "train/accuracy") list_.push_back(value.value);
        }
      }
      std::vector<double>& list_;
    };
    options.sinks = {std::make_shared<Noting>(values)};
    train::Trainer(options).fit();
    return values;
  };
  const std::vector<double> one = run({});
  ASSERT_EQ(one.size(), 4U);
  for (const int p : {2, 3}) {
    std::vector<std::vector<double>> all(static_cast<std::size_t>(p));
    run_ranks(p, [&](const Group& group) {
      all[static_cast<std::size_t>(group.rank())] = run(dist::data_parallel({.group = group}));
    });
    EXPECT_EQ(all[0], one) << p;
  }
}

}  // namespace
}  // namespace mezzo
