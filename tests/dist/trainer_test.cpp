// The trainer over several processes: the bits of one in deterministic mode, within rounding in fast mode.
#include "mezzo/train/trainer.h"

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "dist/trainer_support.h"
#include "mezzo/dist/sync_batch_norm.h"

namespace mezzo {
namespace {

using dist::Group;
using test::Case;
using test::difference;
using test::make_net;
using test::Outcome;
using test::run_ranks;
using test::samples;
using test::train_once;

/// Of all ranks, which are the same.
Outcome train_ranks(int p, const Case& setup, dist::DataParallelOptions options) {
  std::vector<Outcome> all(static_cast<std::size_t>(p));
  run_ranks(p, [&](const Group& group) {
    dist::DataParallelOptions own = options;
    own.group = group;
    own.first_bucket_bytes = 200;
    all[static_cast<std::size_t>(group.rank())] = train_once(setup, dist::data_parallel(own));
  });
  for (const Outcome& outcome : all) {
    EXPECT_TRUE(outcome.model == all[0].model);
    EXPECT_TRUE(outcome.losses == all[0].losses);
    EXPECT_EQ(outcome.results, all[0].results);
    EXPECT_EQ(outcome.skipped, all[0].skipped);
  }
  return all[0];
}

void expect_bits_of_one(const Case& setup) {
  const dist::DataParallelOptions options{.virtual_parts = 4};
  const Outcome one = train_ranks(1, setup, options);
  EXPECT_GT(one.steps, 0);
  for (const int p : {2, 4}) {
    const Outcome outcome = train_ranks(p, setup, options);
    EXPECT_TRUE(outcome.model == one.model) << p;
    EXPECT_TRUE(outcome.losses == one.losses) << p;
    EXPECT_EQ(outcome.results, one.results) << p;
    EXPECT_EQ(outcome.skipped, one.skipped) << p;
    EXPECT_EQ(outcome.sample, one.sample) << p;
  }
}

TEST(ParallelTrainer, DeterministicBitsDoNotDependOnTheNumberOfRanks) {
  for (const char* precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    SCOPED_TRACE(precision);
    expect_bits_of_one({.net = {.batch_norm = true, .dropout = 0.3}, .precision = precision});
  }
}

TEST(ParallelTrainer, DeterministicInFloat8) {
  const Case setup{.net = {.wide = true}, .accumulate = 2, .precision = "amp_fp8", .clip = 0.5};
  expect_bits_of_one(setup);
  Case sharded = setup;
  sharded.sharded = true;
  const dist::DataParallelOptions options{.virtual_parts = 4};
  const Outcome whole = train_ranks(2, setup, options);
  EXPECT_TRUE(train_ranks(2, sharded, options).model == whole.model);
  EXPECT_TRUE(train_once(setup, dist::data_parallel()).model == train_once(setup, {}).model);
  EXPECT_FALSE(
      train_ranks(2, {.net = {.wide = true}, .accumulate = 2, .precision = "amp_bf16", .clip = 0.5}, options)
          .model == whole.model)
      << "nothing ran in float8";
}

TEST(ParallelTrainer, DeterministicWithSkips) {
  const Case setup{.precision = "amp_fp16", .init_scale = std::ldexp(1.0, 26)};
  EXPECT_GT(train_ranks(2, setup, {.virtual_parts = 4}).skipped, 1);
  expect_bits_of_one(setup);
}

TEST(ParallelTrainer, DeterministicWithAccumulationClippingAndShards) {
  expect_bits_of_one({.accumulate = 2, .clip = 0.5});
  expect_bits_of_one({.net = {.dropout = 0.3}, .accumulate = 3, .clip = 0.5, .sharded = true});
  expect_bits_of_one(
      {.precision = "amp_fp16", .clip = 0.5, .init_scale = std::ldexp(1.0, 26), .sharded = true});
  const dist::DataParallelOptions options{.virtual_parts = 4};
  EXPECT_TRUE(train_ranks(2, {.sharded = true}, options).model == train_ranks(4, {}, options).model);
}

TEST(ParallelTrainer, DeterministicWithPartsWithoutSamples) {
  expect_bits_of_one({.net = {.dropout = 0.3}, .count = 50});  // the last batch has 2 samples for 4 parts
  expect_bits_of_one({.net = {.images = true}, .count = 50});
  expect_bits_of_one({.net = {.images = true}, .count = 49, .accumulate = 2, .as_vector = true});
}

TEST(ParallelTrainer, FastModeIsOneProcessWithinRounding) {
  for (const Case& setup : {Case{}, Case{.count = 49}, Case{.accumulate = 2, .clip = 0.5, .microbatch = 3},
                            Case{.count = 50, .sharded = true}, Case{.as_vector = true}}) {
    SCOPED_TRACE(setup.count);
    Case alone_case = setup;
    alone_case.sharded = false;
    const Outcome alone = train_once(alone_case, {});
    for (const int p : {1, 2, 3, 4}) {
      const Outcome outcome = train_ranks(p, setup, {});
      EXPECT_LT(difference(outcome.parameters, alone.parameters), 1e-6) << p;
      ASSERT_EQ(outcome.loss_values.size(), alone.loss_values.size());
      for (std::size_t i = 0; i < alone.loss_values.size(); ++i)
        EXPECT_NEAR(outcome.loss_values[i], alone.loss_values[i], 1e-6) << p;
      EXPECT_EQ(outcome.results.at("accuracy"), alone.results.at("accuracy")) << p;
      EXPECT_NEAR(outcome.results.at("loss"), alone.results.at("loss"), 1e-6) << p;
      EXPECT_EQ(outcome.sample, alone.sample);
    }
  }
}

TEST(ParallelTrainer, RanksEndWithOneModel) {
  // With running statistics of shares; the last batch has 2 samples, so most ranks have none.
  for (const int p : {2, 3, 4}) {
    const Outcome outcome = train_ranks(p, {.net = {.images = true}, .count = 50, .duration = "4ep"}, {});
    EXPECT_EQ(outcome.steps, 16);
    EXPECT_LT(outcome.loss_values[14], outcome.loss_values[0]);  // of full batches
  }
}

TEST(ParallelTrainer, AWorldOfOneHasTheBitsOfNone) {
  for (const char* precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    const Case setup{.net = {.batch_norm = true, .dropout = 0.3},
                     .accumulate = 2,
                     .precision = precision,
                     .microbatch = 7};
    const Outcome none = train_once(setup, {}), one = train_once(setup, dist::data_parallel());
    EXPECT_TRUE(one.model == none.model) << precision;
    EXPECT_TRUE(one.losses == none.losses);
    EXPECT_EQ(one.results, none.results);
  }
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "mezzo-parallel-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ParallelTrainer, AnotherNumberOfRanksGoesOnFromACheckpoint) {
  for (const bool sharded : {false, true}) {
    const dist::DataParallelOptions options{.virtual_parts = 4};
    Case setup{.net = {.dropout = 0.3}, .precision = "amp_fp16", .sharded = sharded, .duration = "3ep"};
    const Outcome whole = train_ranks(1, setup, options);
    const TemporaryFolder folder;
    setup.folder = folder.path();
    setup.resume = true;
    setup.duration = "5ba";  // within the second epoch
    EXPECT_EQ(train_ranks(4, setup, options).steps, 5);
    setup.duration = "9ba";
    EXPECT_EQ(train_ranks(2, setup, options).steps, 9);
    setup.duration = "3ep";
    const Outcome rest = train_ranks(1, setup, options);
    EXPECT_TRUE(rest.model == whole.model);
    EXPECT_EQ(rest.results, whole.results);
  }
}

TEST(ParallelTrainer, RanksStopTogether) {
  run_ranks(3, [&](const Group& group) {
    const auto net = make_net();
    data::DataLoader loader(samples(60), {.batch_size = 6});
    optim::SGD sgd(*net, {.lr = 0.1});
    train::Trainer trainer({.model = net,
                            .loss = nn::CrossEntropyLoss(),
                            .optimizer = sgd,
                            .train_loader = loader,
                            .max_duration = "4ep",
                            .callbacks = {train::on(train::Event::batch_end,
                                                    [&](train::State& state) {
                                                      if (group.rank() == 2 && state.time.batch == 13)
                                                        state.stop_training();
                                                    })},
                            .progress_bar = false,
                            .parallel = dist::data_parallel({.group = group})});
    trainer.fit();
    EXPECT_EQ(trainer.state().time.batch, 13);
    EXPECT_EQ(trainer.predict(loader).size(), 10U);
    EXPECT_EQ(loader.share_size(), 1);
  });
}

TEST(ParallelTrainer, RanksThatLoadOtherDataAreRefusedOnAll) {
  const auto message = [](auto make) {
    std::vector<std::string> messages(2);
    run_ranks(2, [&](const Group& group) {
      const auto net = make_net();
      optim::SGD sgd(*net, {.lr = 0.1});
      auto loader = make(group);
      messages[static_cast<std::size_t>(group.rank())] = test::message_of<ValueError>([&] {
        train::Trainer trainer({.model = net,
                                .loss = nn::CrossEntropyLoss(),
                                .optimizer = sgd,
                                .train_loader = loader,
                                .max_duration = "1ep",
                                .progress_bar = false,
                                .parallel = dist::data_parallel({.group = group})});
        trainer.fit();
      });
    });
    EXPECT_EQ(messages[0], messages[1]);
    return messages[0];
  };
  using Loader = data::DataLoader<data::Example>;
  EXPECT_NE(message([](const Group& group) {
              return std::make_shared<Loader>(samples(20 + group.rank()),
                                              data::DataLoaderOptions{.batch_size = 4});
            }).find("the same loader on all ranks"),
            std::string::npos);
  EXPECT_NE(message([](const Group& group) {
              return std::make_shared<Loader>(
                  samples(20), data::DataLoaderOptions{.batch_size = 4,
                                                       .sampler = data::DistributedSampler(
                                                           20, {.num_replicas = 2, .rank = group.rank()})});
            }).find("without a DistributedSampler"),
            std::string::npos);
  EXPECT_NE(
      message([](const Group& group) {
        auto list = std::make_shared<std::vector<data::Example>>();
        list->push_back({zeros({4, 8}), zeros({4}, {.dtype = DType::i64})});
        list->push_back({zeros({4 + group.rank(), 8}), zeros({4 + group.rank()}, {.dtype = DType::i64})});
        return list;
      }).find("batches of the same size on all ranks, got 4 samples and 5 samples"),
      std::string::npos);
}

TEST(ParallelTrainer, AFolderThatCannotBeWrittenEndsAllRanks) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "x";
  std::vector<std::string> messages(2);
  run_ranks(2, [&](const Group& group) {
    messages[static_cast<std::size_t>(group.rank())] = test::message_of<Error>(
        [&] { train_once({.folder = file + "/run"}, dist::data_parallel({.group = group})); });
  });
  EXPECT_EQ(messages[1], "Trainer: expected rank 0 to go on, got " + messages[0] + "; look at that rank");
}

TEST(ParallelTrainer, AFullDiskEndsAllRanks) {
  const TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;  // bytes of a file
  setrlimit(RLIMIT_FSIZE, &small);
  std::vector<std::string> messages(2);
  run_ranks(2, [&](const Group& group) {
    messages[static_cast<std::size_t>(group.rank())] = test::message_of<Error>(
        [&] { train_once({.folder = folder.path()}, dist::data_parallel({.group = group})); });
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(messages[0].find(folder.path()), std::string::npos) << messages[0];
  EXPECT_EQ(messages[1], "Trainer: expected rank 0 to go on, got " + messages[0] + "; look at that rank");
}

TEST(ParallelTrainer, TakesADataParallelOfTheProgram) {
  // Whose gradients are means, and which a ShardedOptimizer was made of.
  for (const int parts : {0, 4}) {
    const Outcome expected = train_ranks(2, {}, {.virtual_parts = parts});
    run_ranks(2, [&](const Group& group) {
      const auto net = make_net();
      dist::DataParallel parallel(net, {.group = group, .first_bucket_bytes = 200, .virtual_parts = parts});
      dist::ShardedOptimizer<optim::AdamW> optimizer(parallel, {.lr = 1e-2});
      data::DataLoader loader(samples(58), {.batch_size = 16, .shuffle = true, .seed = 2});
      train::Trainer trainer({.model = net,
                              .loss = nn::CrossEntropyLoss(),
                              .optimizer = optimizer,
                              .schedule = optim::Schedule(optim::CosineAnnealingLROptions{.T_max = 8}),
                              .train_loader = loader,
                              .max_duration = "2ep",
                              .precision = "fp32",
                              .progress_bar = false,
                              .parallel = parallel});
      trainer.fit();
      EXPECT_LT(difference(net->parameters(), expected.parameters), 1e-6);
      if (parts > 0) {
        EXPECT_TRUE(test::bytes_of(net->parameters()) == expected.model);
      }
    });
  }
}

TEST(ParallelTrainer, EachStepDrawsNumbersOfItsOwn) {
  for (const int parts : {0, 2}) {
    run_ranks(2, [&](const Group& group) {
      const auto net = make_net({.dropout = 0.5});
      optim::SGD sgd(*net, {.lr = 0});
      data::DataLoader whole(samples(16), {.batch_size = 16});
      const data::Example batch = *whole.begin();
      std::vector<data::Example> list{batch, batch, batch};  // so only the masks differ
      std::vector<double> losses;
      train::Trainer trainer(
          {.model = net,
           .loss = nn::CrossEntropyLoss(),
           .optimizer = sgd,
           .train_loader = list,
           .max_duration = "1ep",
           .callbacks = {train::on(train::Event::batch_end,
                                   [&](train::State& state) { losses.push_back(state.loss.item()); })},
           .progress_bar = false,
           .parallel = dist::data_parallel({.group = group, .virtual_parts = parts})});
      trainer.fit();
      ASSERT_EQ(losses.size(), 3U);
      EXPECT_NE(losses[0], losses[1]);
      EXPECT_NE(losses[1], losses[2]);
      EXPECT_NE(losses[0], losses[2]);
    });
  }
}

TEST(ParallelTrainer, OptimizersWithAClosureAreOneProcessWithinRounding) {
  const auto train = [](const train::Parallel& parallel, bool is_sam) {
    const auto net = make_net();
    optim::SGD sgd(*net, {.lr = 0.1, .momentum = 0.9});
    optim::SAM sam(sgd);
    optim::LBFGS lbfgs(*net, {.lr = 0.5, .max_iter = 4});
    data::DataLoader loader(samples(50), {.batch_size = 25});
    train::Trainer trainer({.model = net,
                            .loss = nn::CrossEntropyLoss(),
                            .optimizer = is_sam ? train::AnyOptimizer(sam) : train::AnyOptimizer(lbfgs),
                            .train_loader = loader,
                            .max_duration = "2ep",
                            .precision = "fp32",
                            .progress_bar = false,
                            .parallel = parallel});
    trainer.fit();
    return test::copies_of(net->parameters());
  };
  for (const bool is_sam : {true, false}) {
    const auto alone = train({}, is_sam);
    for (const int parts : {0, 4}) {
      run_ranks(2, [&](const Group& group) {
        const auto options = dist::data_parallel({.group = group, .virtual_parts = parts});
        // LBFGS divides by differences of gradients, in which rounding is larger.
        const double tolerance = is_sam ? 1e-6 : 5e-6;
        EXPECT_LT(difference(train(options, is_sam), alone), tolerance) << is_sam << ", " << parts;
      });
    }
  }
}

TEST(ParallelTrainer, SyncBatchNormNeedsSamplesOnEachRank) {
  std::vector<std::string> messages(3);
  run_ranks(3, [&](const Group& group) {
    const auto net = make_net({.batch_norm = true});
    dist::convert_sync_batchnorm(*net, group);
    optim::SGD sgd(*net, {.lr = 0.1});
    data::DataLoader loader(samples(14), {.batch_size = 12});
    train::Trainer trainer({.model = net,
                            .loss = nn::CrossEntropyLoss(),
                            .optimizer = sgd,
                            .train_loader = loader,
                            .max_duration = "1ep",
                            .progress_bar = false,
                            .parallel = dist::data_parallel({.group = group})});
    messages[static_cast<std::size_t>(group.rank())] = test::message_of<ValueError>([&] { trainer.fit(); });
    EXPECT_EQ(trainer.state().time.batch, 1);
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(message,
              "Trainer: expected as many forwards on each rank, for SyncBatchNorm, got 0 and 1; use "
              "drop_last, and a microbatch that divides each rank's share");
  }
}

TEST(ParallelTrainer, RefusesOptionsThatDoNotGoTogether) {
  const auto message = [](auto change) {
    const auto net = make_net();
    optim::SGD sgd(*net, {.lr = 0.1});
    data::DataLoader loader(samples(20), {.batch_size = 4});
    train::TrainerOptions options{.model = net,
                                  .loss = nn::CrossEntropyLoss(),
                                  .optimizer = sgd,
                                  .train_loader = loader,
                                  .progress_bar = false,
                                  .parallel = dist::data_parallel()};
    change(options);
    return test::message_of<ValueError>([&] { train::Trainer trainer(std::move(options)); });
  };
  using train::TrainerOptions;
  EXPECT_EQ(message([](TrainerOptions& options) { options.captured = true; }),
            "Trainer: expected no captured with .parallel, got both; leave captured out");
  EXPECT_EQ(
      message([](TrainerOptions& options) { options.microbatch = "auto"; }),
      "Trainer: expected a fixed microbatch with .parallel, got auto; name a number of samples: ranks must "
      "not differ");
  EXPECT_EQ(
      message([](TrainerOptions& options) {
        options.microbatch = 2;
        options.parallel = dist::data_parallel({.virtual_parts = 2});
      }),
      "Trainer: expected no microbatch with virtual_parts, got both; leave microbatch out: a part is one, so "
      "raise virtual_parts");
  EXPECT_EQ(message([](TrainerOptions& options) {
              options.optimizer = dist::sharded<optim::SGD>({.lr = 0.1});
              options.parallel = {};
            }),
            "Trainer: expected a training over several processes, for dist::sharded, got no .parallel; give "
            ".parallel = dist::data_parallel()");
}

}  // namespace
}  // namespace mezzo
