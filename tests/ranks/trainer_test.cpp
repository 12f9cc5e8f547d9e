// The trainer in real processes: each compares what all of them have trained with what it trains alone.
#include "mezzo/train/trainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "dist/trainer_support.h"
#include "mezzo/dist/init.h"

namespace mezzo {
namespace {

using test::Case;
using test::Outcome;
using test::train_once;

/// In deterministic mode, in all processes and in this one alone.
void expect_bits_of_one(const Case& setup) {
  dist::DataParallelOptions options{.first_bucket_bytes = 200, .virtual_parts = 4};
  const Outcome all = train_once(setup, dist::data_parallel(options));
  options.group = dist::Group();
  const Outcome one = train_once(setup, dist::data_parallel(options));
  EXPECT_TRUE(all.model == one.model);
  EXPECT_TRUE(all.losses == one.losses);
  EXPECT_EQ(all.results, one.results);
  EXPECT_EQ(all.skipped, one.skipped);
}

TEST(RanksTrainer, DeterministicModeHasTheBitsOfOneProcess) {
  for (const char* precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    SCOPED_TRACE(precision);
    expect_bits_of_one({.net = {.batch_norm = true, .dropout = 0.3}, .precision = precision, .clip = 1.0});
    expect_bits_of_one({.net = {.dropout = 0.3},
                        .count = 50,
                        .accumulate = 2,
                        .precision = precision,
                        .init_scale = 67108864,
                        .sharded = true});
  }
}

TEST(RanksTrainer, FastModeIsOneProcessWithinRounding) {
  for (const Case& setup :
       {Case{}, Case{.count = 49, .clip = 0.5}, Case{.accumulate = 2, .sharded = true, .microbatch = 3}}) {
    const Outcome all = train_once(setup, dist::data_parallel({.first_bucket_bytes = 200}));
    Case alone = setup;
    alone.sharded = false;
    const Outcome one = train_once(alone, {});
    EXPECT_LT(test::difference(all.parameters, one.parameters), 1e-6);
    EXPECT_NEAR(all.results.at("loss"), one.results.at("loss"), 1e-6);
    EXPECT_EQ(all.results.at("accuracy"), one.results.at("accuracy"));
  }
}

TEST(RanksTrainer, ASignalToOneStopsAllWithACheckpoint) {
  const std::string folder =  // of all processes that one mpirun has started
      (std::filesystem::temp_directory_path() / ("mezzo-signal-" + std::to_string(::getppid()))).string();
  const auto run = [&](bool is_signalled) {
    const auto net = test::make_net();
    data::DataLoader loader(test::samples(60), {.batch_size = 6});
    optim::SGD sgd(*net, {.lr = 0.1});
    train::Trainer trainer({.model = net,
                            .loss = nn::CrossEntropyLoss(),
                            .optimizer = sgd,
                            .train_loader = loader,
                            .max_duration = "2ep",
                            .callbacks = {train::on(train::Event::before_forward,
                                                    [&](train::State& state) {
                                                      const bool is_last =
                                                          dist::rank() + 1 == dist::world_size();
                                                      if (is_signalled && is_last && state.time.batch == 12)
                                                        std::raise(SIGUSR1);
                                                    })},
                            .progress_bar = false,
                            .save = {.folder = folder},
                            .resume = true,
                            .on_signal = train::OnSignal::save_and_stop,
                            .parallel = dist::data_parallel()});
    const std::int64_t begin = trainer.state().time.batch;
    EXPECT_EQ(trainer.fit(), is_signalled ? train::FitEnd::signalled : train::FitEnd::finished);
    EXPECT_EQ(trainer.state().time.batch, is_signalled ? 13 : 20);
    return begin;
  };
  EXPECT_EQ(run(true), 0);
  EXPECT_EQ(run(false), 13) << "goes on";
  dist::barrier();
  if (dist::rank() == 0) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mezzo
