// Trainings that are stopped and go on: from checkpoints, after kill -9, and after memory ran out.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <span>

#include "mezzo/io/json.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/trainer_support.h"

namespace mezzo::train {
namespace {

const Setting kWhole{.name = "whole",
                     .precision = "amp_fp16",
                     .accumulate = 2,
                     .microbatch = 5,
                     .clip_norm = 0.5,
                     .schedule = true,
                     .init_scale = 1e9};

class TrainerResume : public ::testing::Test {
 protected:
  TrainerResume()
      : folder_(std::filesystem::temp_directory_path() / ("mezzo-trainer-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TrainerResume() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Saves a checkpoint again with another number in its values.
  static void change(const io::TensorFile& checkpoint, const std::vector<std::string>& keys,
                     std::int64_t number, const std::string& file) {
    io::TensorFile changed = checkpoint;
    const Value values = io::parse_json(changed.metadata.at("mezzo.values"));
    changed.metadata["mezzo.values"] = with(values, keys, number).to_string();
    changed.save(file);
  }
  /// `map` with a number under the keys, which lead into it.
  [[nodiscard]] static Value with(Value map, std::span<const std::string> keys, std::int64_t number) {
    const Value inner = keys.size() == 1 ? Value(number) : with(map.at(keys[0]), keys.subspan(1), number);
    return map.set(keys[0], inner);
  }
  /// The keys that lead to each integer below `map`.
  static void find_integers(const Value& map, const std::vector<std::string>& keys,
                            std::vector<std::vector<std::string>>& found) {
    for (const auto& [key, value] : map.as_map()) {
      std::vector<std::string> longer = keys;
      longer.push_back(key);
      if (value.is_map()) find_integers(value, longer, found);
      if (value.is_int()) found.push_back(longer);
    }
  }

  /// Everything in a checkpoint, but for the time that it took.
  [[nodiscard]] static std::vector<std::string> content(const std::string& file) {
    const io::TensorFile loaded = io::TensorFile::load(file);
    std::vector<std::string> all;
    for (const auto& [name, tensor] : loaded.tensors) {
      const Tensor row = tensor.contiguous();
      all.push_back(name + ":" +
                    std::string(static_cast<const char*>(row.impl().data()),
                                static_cast<std::size_t>(row.numel() * size_of(row.dtype()))));
    }
    Value values = io::parse_json(loaded.metadata.at("mezzo.values"));
    Value trainer = values.at("trainer"), time = trainer.at("time");
    values.set("trainer", trainer.set("time", time.set("seconds", 0.0)));
    all.push_back(values.to_string());
    return all;
  }

  /// Trains `epochs` in a folder, from its newest checkpoint on, and saves the end.
  static void train(const std::string& run, const std::string& end, int epochs) {
    Bench bench(kWhole);
    TrainerOptions options = bench.options();
    options.eval_loader = *bench.loader;
    options.metrics = {{"accuracy", Accuracy()}};
    options.eval_interval = "5ba";
    options.max_duration = epochs;
    options.seed = 77;
    options.save = {
        .folder = run, .interval = "2ba", .keep_last = 2, .metric = "accuracy", .best = Best::highest};
    options.resume = true;
    Trainer trainer(options);
    trainer.fit();
    trainer.save_checkpoint(end);
  }

  std::filesystem::path folder_;
};

TEST_F(TrainerResume, AtTwentyKillsItEndsWithTheSameBits) {
  constexpr int kEpochs = 30;
  train(path("whole"), path("whole.safetensors"), kEpochs);
  const auto expected = content(path("whole.safetensors"));
  std::mt19937_64 random(4);
  int killed = 0, ended = 0;
  for (int round = 0; round < 400 && (killed < 20 || ended == 0); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      train(path("run"), path("run.safetensors"), kEpochs);
      ::_exit(0);
    }
    if (killed < 20) {
      ::usleep(static_cast<unsigned>(random() % 60000));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ++killed;
      continue;
    }
    ASSERT_EQ(WEXITSTATUS(status), 0);
    ++ended;
    EXPECT_TRUE(content(path("run.safetensors")) == expected);
    std::filesystem::remove_all(path("run"));
    std::filesystem::remove(path("run.safetensors"));
  }
  EXPECT_EQ(killed, 20);
  EXPECT_GT(ended, 0);
}

TEST_F(TrainerResume, FromACheckpointWithinAnEpoch) {
  Bench whole(kWhole), first(kWhole), second(kWhole);
  TrainerOptions options = whole.options();
  options.max_duration = "20ba";
  options.seed = 77;
  Trainer(options).fit();

  options = first.options();
  options.max_duration = "7ba";
  options.seed = 77;
  Trainer stopped(options);
  stopped.fit();
  stopped.save_checkpoint(path("a.safetensors"));

  options = second.options();
  options.max_duration = "20ba";
  options.seed = 1;
  options.load = path("a.safetensors");
  std::vector<std::string> seen;
  options.callbacks = {
      on(Event::epoch_start, [&](State& /*state*/) { seen.emplace_back("epoch_start"); }),
      on(Event::iteration_start, [&](State& /*state*/) { seen.emplace_back("iteration_start"); })};
  Trainer resumed(options);
  EXPECT_EQ(resumed.state().time.batch, 7);
  EXPECT_EQ(resumed.state().time.batch_in_epoch, 1);
  resumed.fit();
  EXPECT_EQ(seen.size(), 4U) << "epochs 3 to 6, and neither epoch 2 nor an iteration once more";
  EXPECT_TRUE(second.weights() == whole.weights());

  // The same of a trainer that is under way.
  stopped.fit("2ba");
  stopped.load_checkpoint(path("a.safetensors"));
  stopped.fit("13ba");
  EXPECT_TRUE(first.weights() == whole.weights());
}

TEST_F(TrainerResume, OtherLoadersAreReadUpToTheirPlace) {
  Bench whole({}), second({});
  std::vector<data::Example> batches = whole.batches();
  TrainerOptions options = whole.options();
  options.train_loader = batches;
  options.max_duration = "4ba";
  options.seed = 77;
  Trainer trainer(options);
  trainer.fit();
  trainer.save_checkpoint(path("b.safetensors"));
  trainer.fit("5ba");

  options = second.options();
  options.train_loader = batches;
  options.load = path("b.safetensors");
  Trainer(options).fit("5ba");
  EXPECT_TRUE(second.weights() == whole.weights());

  batches.resize(2);  // of the checkpoint's epoch there is nothing left
  Bench third({});
  options = third.options();
  options.train_loader = batches;
  change(io::TensorFile::load(path("b.safetensors")), {"trainer", "time", "batch_in_epoch"},
         std::int64_t{1} << 53, path("beyond.safetensors"));
  options.load = path("beyond.safetensors");
  Trainer shorter(options);
  shorter.fit("1ba");
  EXPECT_EQ(shorter.state().time.batch, 5);
  EXPECT_EQ(shorter.state().time.batch_in_epoch, 1);
}

TEST_F(TrainerResume, WeightsAloneOfACheckpointOrAFileOfWeights) {
  Bench trained({});
  TrainerOptions options = trained.options();
  options.max_duration = 1;
  Trainer trainer(options);
  trainer.fit();
  trainer.save_checkpoint(path("c.safetensors"));
  io::save(trained.net->state_dict(), path("weights.safetensors"));
  for (const char* file : {"c.safetensors", "weights.safetensors"}) {
    Bench fresh({});
    TrainerOptions loading = fresh.options();
    loading.load = path(file);
    loading.load_weights_only = true;
    Trainer loaded(loading);
    EXPECT_EQ(loaded.state().time.batch, 0);
    EXPECT_EQ(fresh.net->parameters()[0].to_vector<float>(), trained.net->parameters()[0].to_vector<float>());
  }
}

TEST_F(TrainerResume, RefusesCountsThatNoTrainerSaved) {
  Bench bench({});
  Trainer trainer(bench.options());
  trainer.save_checkpoint(path("d.safetensors"));
  const io::TensorFile good = io::TensorFile::load(path("d.safetensors"));
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<const char*, std::int64_t>> bad{{"microbatch", 0},
                                                              {"microbatch", -2},
                                                              {"microbatch", largest},
                                                              {"evaluated_at", -2},
                                                              {"evaluated_at", largest}};
  for (const auto& [name, count] : bad) {
    change(good, {"trainer", name}, count, path("bad.safetensors"));
    const std::string message =
        test::message_of<ValueError>([&] { trainer.load_checkpoint(path("bad.safetensors")); });
    EXPECT_NE(message.find(std::string("Trainer::load_checkpoint: expected ") + name + " from "),
              std::string::npos)
        << message;
  }
  trainer.load_checkpoint(path("d.safetensors"));
}

TEST_F(TrainerResume, EveryCountOfACheckpointMayBeWrong) {
  const auto run = [&](const std::string& checkpoint) {
    Bench bench(kWhole);
    TrainerOptions options = bench.options();
    options.max_duration = "3ba";
    options.seed = 77;
    Trainer trainer(options);
    bool loaded = !checkpoint.empty();
    try {
      if (loaded) trainer.load_checkpoint(checkpoint);
    } catch (const Error&) {
      loaded = false;
    }
    trainer.fit();
    if (checkpoint.empty()) trainer.save_checkpoint(path("e.safetensors"));
    return loaded;
  };
  run("");
  const io::TensorFile good = io::TensorFile::load(path("e.safetensors"));
  std::vector<std::vector<std::string>> counts;
  find_integers(io::parse_json(good.metadata.at("mezzo.values")), {}, counts);
  EXPECT_GT(counts.size(), 15U);
  int taken = 0, refused = 0;
  for (const auto& keys : counts) {
    for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 53,
                                      std::numeric_limits<std::int64_t>::max()}) {
      SCOPED_TRACE(keys.back() + " " + std::to_string(number));
      change(good, keys, number, path("bent.safetensors"));
      ++(run(path("bent.safetensors")) ? taken : refused);
    }
  }
  EXPECT_GE(taken, 15);
  EXPECT_GE(refused, 2 * 15);
}

TEST_F(TrainerResume, AFinishedRunHasItsResults) {
  const auto run = [&](const std::string& interval) {
    Bench bench({});
    TrainerOptions options = bench.options();
    options.eval_loader = *bench.loader;
    options.eval_interval = "100ba";
    options.metrics = {{"accuracy", Accuracy()}};
    options.max_duration = "1ep";
    options.save = {.folder = path("finished"), .interval = interval};
    options.resume = true;
    Trainer trainer(options);
    trainer.fit();
    return trainer.state().eval_results;
  };
  for (const char* interval : {"1ba", "1ep", "0ep"}) {
    std::filesystem::remove_all(path("finished"));
    const EvalResults results = run(interval);
    EXPECT_EQ(results.size(), 2U);
    EXPECT_EQ(run(interval), results) << interval;
  }
}

TEST_F(TrainerResume, StoppedBeforeTheLastEvaluationItIsMadeUpFor) {
  const auto run = [&](const std::string& folder, bool stops) {
    Bench bench({});
    TrainerOptions options = bench.options();
    options.eval_loader = *bench.loader;
    options.eval_interval = "100ba";
    options.metrics = {{"accuracy", Accuracy()}};
    options.max_duration = "1ep";
    options.seed = 77;
    options.save = {.folder = path(folder), .interval = "1ba"};
    options.resume = true;
    options.callbacks = {on(Event::eval_start, [&](State& /*state*/) {
      if (stops) throw std::runtime_error("stopped");
    })};
    Trainer trainer(options);
    if (stops)
      EXPECT_THROW(trainer.fit(), CallbackError);
    else
      trainer.fit();
    return trainer.state().eval_results;
  };
  const EvalResults expected = run("unbroken", false);
  EXPECT_TRUE(run("stopped", true).empty());
  EXPECT_EQ(run("stopped", false), expected);
  EXPECT_EQ(run("stopped", false), expected);
}

TEST_F(TrainerResume, AnEvaluationOfAnotherLoaderIsNotTheLastOne) {
  Bench bench({});
  std::vector<data::Example> other{*bench.samples};
  TrainerOptions options = bench.options();
  options.eval_loader = *bench.loader;
  options.eval_interval = "100ba";
  options.metrics = {{"accuracy", Accuracy()}};
  options.max_duration = "6ba";
  int evaluations = 0;
  Trainer* current = nullptr;
  options.callbacks = {on(Event::eval_end, [&](State& /*state*/) { ++evaluations; }),
                       on(Event::batch_checkpoint, [&](State& state) {
                         if (state.time.batch == 6) current->eval(other);
                       })};
  Trainer trainer(options);
  current = &trainer;
  trainer.fit();
  EXPECT_EQ(evaluations, 2);
}

TEST_F(TrainerResume, KeepsTheLastAndTheBest) {
  Bench bench({});
  TrainerOptions options = bench.options();
  options.eval_loader = *bench.loader;
  options.metrics = {{"accuracy", Accuracy()}};
  options.max_duration = "5ep";
  options.save = {
      .folder = path("kept"), .interval = "1ep", .keep_last = 1, .keep_best = 1, .metric = "loss"};
  double best = INFINITY;
  std::int64_t best_batch = 0;
  options.callbacks = {on(Event::eval_end, [&](State& state) {
    if (state.eval_results.at("loss") <= best)
      best = state.eval_results.at("loss"), best_batch = state.time.batch;
  })};
  Trainer trainer(options);
  trainer.fit();
  CheckpointManager manager(path("kept"), trainer.parts());
  EXPECT_EQ(manager.load_best(), best_batch);
  EXPECT_EQ(manager.steps().back(), 30);
  EXPECT_LE(manager.steps().size(), 2U);
}

TEST_F(TrainerResume, LeavesTheWeightsOfTheBestEvaluation) {
  for (const bool averaged : {false, true}) {
    Bench bench({});
    TrainerOptions options = bench.options();
    options.eval_loader = *bench.loader;
    options.metrics = {{"accuracy", Accuracy()}};
    options.max_duration = "4ep";
    options.eval_interval = "4ba";
    const std::string file = path(averaged ? "ema.safetensors" : "best.safetensors");
    options.save = {.folder = path(averaged ? "ema" : "plain"), .best_weights = file};
    if (averaged) options.algorithms = {algorithms::EMA({.decay = 0.5})};
    double best = INFINITY;
    std::int64_t best_batch = 0;
    options.callbacks = {on(Event::eval_end, [&](State& state) {
      if (state.eval_results.at("loss") >= best) return;
      best = state.eval_results.at("loss"), best_batch = state.time.batch;
    })};
    Trainer(options).fit();
    const io::TensorFile saved = io::TensorFile::load(file);
    EXPECT_EQ(saved.metadata.at("batch"), std::to_string(best_batch));
    EXPECT_EQ(saved.metadata.at("loss"), Value(best).to_string());
    // Loaded into a plain model they give the loss of that evaluation.
    Bench other({});
    other.net->load_state_dict(saved.tensors);
    EXPECT_EQ(evaluate(*other.net, *other.loader, {}, {.loss = nn::CrossEntropyLoss()}).at("loss"), best);

    // A run that goes on keeps them until an evaluation is better.
    bool is_better = false;
    options.resume = true;
    options.max_duration = "5ep";
    options.callbacks = {on(Event::eval_end, [&](State& state) {
      is_better = is_better || state.eval_results.at("loss") < best;
    })};
    Trainer(options).fit();
    EXPECT_EQ(io::TensorFile::load(file).metadata.at("batch") != std::to_string(best_batch), is_better);
  }
}

TEST_F(TrainerResume, RefusesBestWeightsThatNothingDecides) {
  Bench bench({});
  TrainerOptions options = bench.options();
  options.save = {.best_weights = path("best.safetensors")};
  EXPECT_THROW(Trainer{options}, ValueError);  // no eval_loader
  options.eval_loader = *bench.loader;
  options.save = {.folder = path("run"), .best_weights = path("run/best.safetensors")};
  EXPECT_THROW(Trainer{options}, ValueError);  // the name of a checkpoint
}

/// Runs out of memory when it is given more samples than it has room for, late: statistics of batch norm and
/// random numbers are used by then.
class Crowded final : public nn::Layer {
 public:
  explicit Crowded(std::int64_t room) : room_(room) {}
  Tensor forward(const Tensor& x) override {
    if (x.size(0) > room_)
      throw OutOfMemoryError("Crowded", "room", std::to_string(x.size(0)) + " samples", "take fewer");
    return x;
  }

 private:
  std::int64_t room_;
};

TEST(TrainerMicrobatch, AutoHalvesAndLeavesNoTrace) {
  for (const char* precision : {"fp32", "amp_fp16"}) {
    std::vector<std::vector<std::vector<double>>> ends;
    for (const bool is_auto : {false, true}) {
      Bench bench({.precision = precision, .accumulate = 2});
      nn::Sequential net(bench.net, nn::make<Crowded>(is_auto ? 3 : 8));
      TrainerOptions options = bench.options();
      options.model = net;
      options.max_duration = 2;
      options.seed = 77;
      if (is_auto)
        options.microbatch = "auto";
      else
        options.microbatch = 2;
      Trainer trainer(options);
      trainer.fit();
      EXPECT_EQ(trainer.state().microbatch, 2);
      ends.push_back(bench.weights());
    }
    EXPECT_TRUE(ends[0] == ends[1]) << precision;
  }
}

TEST(TrainerMicrobatch, AutoGivesUpAtOneSample) {
  nn::Sequential net(nn::Linear(6, 4), Crowded(0));
  std::vector<data::Example> batches{{ones({4, 6}), zeros({4}, {.dtype = DType::i64})}};
  optim::SGD sgd(net);
  Trainer trainer({.model = net,
                   .loss = nn::CrossEntropyLoss(),
                   .optimizer = sgd,
                   .train_loader = batches,
                   .max_duration = 1,
                   .microbatch = "auto",
                   .progress_bar = false});
  EXPECT_THROW(trainer.fit(), OutOfMemoryError);
}

}  // namespace
}  // namespace mezzo::train
