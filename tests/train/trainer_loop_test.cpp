// A trainer and the loop by hand: the same bits in every precision, with accumulation, parts, clipping,
// schedules and skipped steps; and optimizers that evaluate closures.
#include <gtest/gtest.h>

#include <map>
#include <type_traits>
#include <vector>

#include "mezzo/tests/support/caught_warnings.h"
#include "mezzo/tests/train/trainer_support.h"

namespace mezzo::train {
namespace {

class TrainerLoop : public ::testing::TestWithParam<Setting> {};

TEST_P(TrainerLoop, HasTheBitsOfTheLoopByHand) {
  Bench by_hand(GetParam()), by_trainer(GetParam());
  HandLoop loop(by_hand);
  const auto expected = loop.run(3);

  std::vector<double> losses;
  TrainerOptions options = by_trainer.options();
  options.max_duration = "3ep";
  options.callbacks = {on(Event::batch_end, [&](State& state) { losses.push_back(state.loss.item()); })};
  manual_seed(77);
  Trainer trainer(options);
  trainer.fit();

  EXPECT_EQ(losses, expected);
  EXPECT_TRUE(by_trainer.weights() == by_hand.weights());
  EXPECT_EQ(trainer.state().time.epoch, 3);
  EXPECT_EQ(trainer.state().time.batch, static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(trainer.state().time.sample, 3 * 44);
  if (GetParam().init_scale > 1e6) {
    EXPECT_GT(loop.skipped(), 0);
  }
  EXPECT_EQ(trainer.state().scaler->is_enabled(), GetParam().precision == "amp_fp16");
  EXPECT_EQ(trainer.state().scaler->steps_skipped(), loop.skipped());
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    const std::string name = precision;
    all.push_back({.name = name + "_plain", .precision = precision});
    all.push_back({.name = name + "_accumulate", .precision = precision, .accumulate = 4});
    all.push_back({.name = name + "_microbatch", .precision = precision, .microbatch = 5});
    all.push_back({.name = name + "_clip", .precision = precision, .clip_norm = 0.5});
    all.push_back({.name = name + "_all",
                   .precision = precision,
                   .accumulate = 2,
                   .microbatch = 5,
                   .clip_norm = 0.5,
                   .schedule = true});
  }
  all.push_back({.name = "skips", .precision = "amp_fp16", .init_scale = 1e9});
  all.push_back({.name = "skips_all",
                 .precision = "amp_fp16",
                 .accumulate = 2,
                 .microbatch = 5,
                 .clip_norm = 0.1,
                 .schedule = true,
                 .init_scale = 1e9});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Settings, TrainerLoop, ::testing::ValuesIn(settings()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Trainer, AnEndWithinAnEpochGoesOnThere) {
  Bench once({}), twice({});
  TrainerOptions options = once.options();
  options.max_duration = "17ba";
  manual_seed(77);
  Trainer(options).fit();

  TrainerOptions parts = twice.options();
  parts.max_duration = "5ba";
  manual_seed(77);
  Trainer trainer(parts);
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 5);
  trainer.fit("9ba");
  EXPECT_EQ(trainer.state().time.batch, 14);
  EXPECT_EQ(trainer.state().time.epoch, 2);
  EXPECT_EQ(trainer.state().time.batch_in_epoch, 2);
  trainer.fit("24sp");
  EXPECT_EQ(trainer.state().time.batch, 17);
  EXPECT_TRUE(twice.weights() == once.weights());
}

TEST(Trainer, KeepsARangeThatIsGivenAway) {
  Bench kept({}), given({});
  std::vector<data::Example> batches = kept.batches();
  TrainerOptions options = kept.options();
  options.train_loader = batches;
  options.max_duration = "2ep";
  manual_seed(77);
  Trainer(options).fit();

  options = given.options();
  options.train_loader = given.batches();
  options.max_duration = "2ep";
  manual_seed(77);
  Trainer(options).fit();
  EXPECT_TRUE(given.weights() == kept.weights());
  static_assert(std::is_constructible_v<AnyLoader, const std::vector<data::Example>&>);
  static_assert(std::is_constructible_v<AnyLoader, data::DataLoader<>&>);
  static_assert(!std::is_constructible_v<AnyLoader, data::DataLoader<>>,
                "it would be gone before the training");
}

TEST(Trainer, AnEvaluationOfTheTrainLoaderChangesNothing) {
  Bench plain({}), evaluated({});
  TrainerOptions options = plain.options();
  options.max_duration = "2ep";
  manual_seed(77);
  Trainer(options).fit();

  options = evaluated.options();
  options.eval_loader = *evaluated.loader;
  options.eval_interval = "2ba";
  options.metrics = {{"accuracy", Accuracy()}};
  options.max_duration = "2ep";
  manual_seed(77);
  Trainer trainer(options);
  trainer.fit();
  EXPECT_TRUE(evaluated.weights() == plain.weights());
  const EvalResults results = trainer.state().eval_results;
  EXPECT_EQ(results.size(), 2U);

  // The same by hand.
  evaluated.net->eval();
  const NoGrad no_grad;
  const Tensor output = (*evaluated.net)(evaluated.samples->data);
  Accuracy accuracy;
  accuracy.update(output, evaluated.samples->target);
  EXPECT_EQ(results.at("accuracy"), accuracy.value());
  EXPECT_NEAR(results.at("loss"), cross_entropy(output, evaluated.samples->target).item(), 1e-6);
  EXPECT_EQ(trainer.eval(), results);
}

/// Takes no record, so that nothing has to be read.
struct NeverDue final : Sink {
  bool is_due(std::int64_t /*step*/) override { return false; }
  void write(const LogRecord& /*record*/) override { ADD_FAILURE() << "was not due"; }
};

TEST(Trainer, ReadsNothingBackThatNobodyAsksFor) {
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    Bench bench(
        {.precision = precision, .accumulate = 2, .microbatch = 5, .clip_norm = 0.5, .schedule = true});
    TrainerOptions options = bench.options();
    options.sinks = {NeverDue()};
    Trainer trainer(options);
    trainer.fit("1ep");
    const std::uint64_t before = host_reads();
    trainer.fit("3ep");
    EXPECT_EQ(host_reads(), before) << precision;
  }
}

/// What was logged last, by name.
struct LastRecord final : Sink {
  explicit LastRecord(std::map<std::string, double>& values) : values_(values) {}
  void write(const LogRecord& record) override {
    for (const auto& [name, value, dtype] : record.values) values_[std::string(name)] = value;
  }
  std::map<std::string, double>& values_;
};

TEST(Trainer, LogsWhatItAndItsCallbacksSay) {
  Bench bench({.precision = "amp_fp16", .clip_norm = 0.5, .schedule = true});
  std::map<std::string, double> values;
  TrainerOptions options = bench.options();
  options.sinks = {LastRecord(values)};
  options.eval_loader = *bench.loader;
  options.metrics = {{"accuracy", Accuracy()}};
  options.max_duration = 1;
  double loss = 0, lr = 0;
  options.callbacks = {on(Event::batch_start, [&](State& state) { lr = state.optimizer->lr(); }),
                       on(Event::batch_end, [&](State& state) {
                         state.log("batch", 1);
                         state.log("batch", state.time.batch);
                         loss = state.loss.item();
                       })};
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(values.at("loss"), loss);
  EXPECT_EQ(values.at("batch"), 6);
  EXPECT_EQ(values.at("lr"), lr) << "of the step beside whose loss it stands";
  EXPECT_EQ(values.at("scale"), trainer.state().scaler->get_scale());
  EXPECT_GT(values.at("grad_norm"), 0);
  EXPECT_EQ(values.at("eval/accuracy"), trainer.state().eval_results.at("accuracy"));
  EXPECT_EQ(values.at("eval/loss"), trainer.state().eval_results.at("loss"));
  EXPECT_EQ(values.at("steps_skipped"), 0);
  EXPECT_EQ(values.size(), 8U);
}

TEST(Trainer, WithoutAnOptimizerItTakesSGDAndSaysSo) {
  const test::CaughtWarnings warnings;
  Bench bench({});
  TrainerOptions options = bench.options();
  options.optimizer = {};
  options.max_duration = 1;
  Trainer trainer(options);
  trainer.fit();
  EXPECT_EQ(trainer.state().optimizer->lr(), 0.1);
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_EQ(
      warnings.texts()[0],
      "Trainer: expected an optimizer, got none, so SGD with learning rate 0.1 is taken; name .optimizer");
}

TEST(Trainer, ACapturedStepOnTheCPUHasTheSameBits) {
  std::vector<std::vector<std::vector<double>>> ends;
  for (const bool captured : {false, true}) {
    Bench bench(
        {.precision = "amp_bf16", .accumulate = 2, .microbatch = 5, .clip_norm = 0.5, .schedule = true});
    TrainerOptions options = bench.options();
    options.captured = captured;
    options.max_duration = 3;
    options.seed = 77;
    Trainer(options).fit();
    ends.push_back(bench.weights());
  }
  EXPECT_TRUE(ends[0] == ends[1]);
}

TEST(Trainer, EvaluateIsThereForLoopsByHand) {
  for (const char* precision : {"fp32", "amp_bf16"}) {
    Bench bench({.precision = precision});
    TrainerOptions options = bench.options();
    options.metrics = {{"accuracy", Accuracy()}, {"matrix", ConfusionMatrix(4)}};
    Trainer trainer(options);
    const EvalResults expected = trainer.eval(*bench.loader);
    const EvalResults results =
        evaluate(*bench.net, *bench.loader, {{"accuracy", Accuracy()}},
                 {.loss = nn::CrossEntropyLoss(), .precision = amp::precision_from_string(precision)});
    EXPECT_EQ(results, expected) << precision;
    EXPECT_EQ(evaluate(*bench.net, *bench.loader, {{"accuracy", Accuracy()}}).size(), 1U);
  }
  nn::Linear net(2, 2);
  std::vector<std::vector<Tensor>> lists{{ones({2, 2})}};
  EXPECT_THROW(evaluate(net, lists, {}), ValueError);
  EXPECT_THROW(evaluate(net, {}, {}), ValueError);
}

TEST(Trainer, AnEvaluationThatThrowsEndsForItsCallbacks) {
  Bench bench({});
  TrainerOptions options = bench.options();
  std::vector<data::Example> bad{{ones({2, 6}), ones({2}, {.dtype = DType::i64}) * 9}};
  options.metrics = {{"matrix", ConfusionMatrix(4)}};
  int ends = 0;
  options.callbacks = {on(Event::eval_end, [&](State& /*state*/) {
    ++ends;
    throw std::runtime_error("a second error");
  })};
  Trainer trainer(options);
  EXPECT_THROW(trainer.eval(bad), IndexError);
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(bench.net->is_training());
}

TEST(Trainer, ModesOfModulesComeBackAfterAnEvaluation) {
  Bench bench({});
  TrainerOptions options = bench.options();
  options.metrics = {{"accuracy", Accuracy()}};
  Trainer trainer(options);
  bench.net->train();
  nn::Module& norm = *bench.net->children()[1];
  norm.eval();  // frozen by the user
  trainer.eval(*bench.loader);
  EXPECT_TRUE(bench.net->is_training());
  EXPECT_FALSE(norm.is_training());
}

TEST(Trainer, PredictsInOrder) {
  Bench bench({});
  Trainer trainer(bench.options());
  std::vector<Tensor> inputs{bench.samples->data};
  const auto outputs = trainer.predict(inputs);
  ASSERT_EQ(outputs.size(), 1U);
  bench.net->eval();
  const NoGrad no_grad;
  EXPECT_EQ(outputs[0].to_vector<float>(), (*bench.net)(bench.samples->data).to_vector<float>());
}

/// SAM by hand and by the trainer.
TEST(Trainer, OptimizersThatEvaluateGetAClosure) {
  for (const char* precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    Bench by_hand({.precision = precision}), by_trainer({.precision = precision});
    {
      optim::SAM sam(*by_hand.adam);
      amp::GradScaler scaler(by_hand.scaling());
      manual_seed(77);
      for (const auto& [x, target] : *by_hand.loader) {
        scaler.step(sam, [&, &in = x, &want = target] {
          by_hand.adam->zero_grad();
          std::optional<amp::Autocast> region;
          const std::string mode = precision;
          if (mode != "fp32") region.emplace(Device::cpu(), mode == "amp_fp16" ? DType::f16 : DType::bf16);
          const Tensor loss = cross_entropy((*by_hand.net)(in), want);
          region.reset();
          scaler.scale(loss).backward();
          return loss;
        });
        if (scaler.is_enabled()) scaler.update();
      }
    }
    optim::SAM sam(*by_trainer.adam);
    TrainerOptions options = by_trainer.options();
    options.optimizer = sam;
    options.max_duration = 1;
    manual_seed(77);
    Trainer(options).fit();
    EXPECT_TRUE(by_trainer.weights() == by_hand.weights()) << precision;
  }
}

TEST(Trainer, LBFGSFitsALine) {
  nn::Linear line(1, 1);
  optim::LBFGS lbfgs(line, {.lr = 1, .max_iter = 20});
  const Tensor x = arange(-1, 1, 0.125).reshape({16, 1});
  std::vector<data::Example> batches{{x, x * 3.0 - 0.5}};
  Trainer trainer({.model = line,
                   .loss = nn::MSELoss(),
                   .optimizer = lbfgs,
                   .train_loader = batches,
                   .max_duration = 3,
                   .progress_bar = false});
  trainer.fit();
  EXPECT_NEAR(line.weight->item(), 3.0, 1e-5);
  EXPECT_NEAR(line.bias->item(), -0.5, 1e-5);
}

TEST(Trainer, LossesInTheirForms) {
  const auto end_with = [](Loss loss) {
    Bench bench({});
    TrainerOptions options = bench.options();
    options.loss = std::move(loss);
    options.max_duration = 1;
    options.seed = 77;
    Trainer(options).fit();
    return bench.weights();
  };
  const auto expected = end_with(nn::CrossEntropyLoss());
  EXPECT_TRUE(end_with(cross_entropy) == expected);
  EXPECT_TRUE(end_with(nn::make<nn::CrossEntropyLoss>()) == expected);
  EXPECT_TRUE(end_with([](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }) == expected);
  EXPECT_TRUE(end_with([](const Tensor& y, const auto& t) { return cross_entropy(y, t); }) == expected);
  EXPECT_TRUE(end_with([](const Tensor& y, const data::Example& batch) {
                return cross_entropy(y, batch.target);
              }) == expected);
}

TEST(Trainer, LossesAndModelsOfOtherBatches) {
  // Batches of a type of the program's own, a forward, a loss of the whole batch, a count of tokens.
  struct Pair {
    Tensor left, right, target;
  };
  nn::Bilinear net(3, 2, 1);
  optim::SGD sgd(net, {.lr = 0.1});
  Generator generator(5);
  std::vector<Pair> batches;
  for (int i = 0; i < 4; ++i)
    batches.push_back(
        {randn({8, 3}, {}, generator), randn({8, 2}, {}, generator), randn({8, 1}, {}, generator)});
  Trainer trainer({.model = net,
                   .loss = [](const Tensor& y, const Pair& batch) { return mse_loss(y, batch.target); },
                   .optimizer = sgd,
                   .train_loader = batches,
                   .eval_loader = batches,
                   .forward = [&](const Pair& batch) { return net(batch.left, batch.right); },
                   .tokens = [](const Pair& batch) { return batch.left.numel(); },
                   .metrics = {{"mse", MeanSquaredError(),
                                [](MeanSquaredError& metric, const Tensor& y, const Pair& batch) {
                                  metric.update(y, batch.target);
                                }}},
                   .max_duration = "192tok",
                   .progress_bar = false});
  const double before = trainer.eval().at("mse");
  trainer.fit();
  EXPECT_EQ(trainer.state().time.batch, 8);
  EXPECT_EQ(trainer.state().time.token, 192);
  EXPECT_LT(trainer.state().eval_results.at("mse"), before);
  EXPECT_NEAR(trainer.state().eval_results.at("mse"), trainer.state().eval_results.at("loss"), 1e-6);

  // A loss that calls the model itself.
  Trainer direct(
      {.model = net,
       .loss = [&](const Pair& batch) { return mse_loss(net(batch.left, batch.right), batch.target); },
       .optimizer = sgd,
       .train_loader = batches,
       .max_duration = "1ep",
       .progress_bar = false});
  direct.fit();
  EXPECT_LT(direct.state().loss.item(), before * 2);
  EXPECT_EQ(direct.state().time.batch, 4);
}

}  // namespace
}  // namespace mezzo::train
