// What losses are weighed by: however a batch is cut, a step is that of the whole batch, and so is an
// evaluation.
#include <gtest/gtest.h>

#include <cmath>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/train.h"

namespace mezzo::train {
namespace {

using test::message_of;

constexpr std::int64_t kSamples = 12, kPlaces = 5, kClasses = 3;

/// A net in f64 whose outputs are [N, 3, 5], and 12 samples of which the later ones have more ignored
/// targets; of the last two all are.
struct Tokens {
  Tokens() {
    manual_seed(4);
    net = nn::make<nn::Sequential>(nn::Linear(4, kClasses * kPlaces),
                                   nn::Unflatten(1, Shape{kClasses, kPlaces}));
    net->to(DType::f64);
    x = randn({kSamples, 4}, {.dtype = DType::f64});
    target = randint(0, kClasses, {kSamples, kPlaces});
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const std::int64_t ignored = std::min(i / 2, kPlaces);
      if (ignored > 0) target.narrow(0, i, 1).narrow(1, 0, ignored).fill_(-100);
    }
  }
  [[nodiscard]] std::vector<data::Example> batches(std::int64_t size) const {
    std::vector<data::Example> list;
    for (std::int64_t i = 0; i < kSamples; i += size)
      list.push_back({narrow(x, 0, i, std::min(size, kSamples - i)),
                      narrow(target, 0, i, std::min(size, kSamples - i))});
    return list;
  }
  /// Weights after a step of SGD with rate 1 on the whole.
  [[nodiscard]] std::vector<double> stepped(const Tensor& loss) const {
    net->zero_grad();
    loss.backward();
    std::vector<double> values;
    for (const Tensor& parameter : net->parameters()) {
      for (const double value : (parameter.detach() - parameter.grad()).to_vector<double>())
        values.push_back(value);
    }
    return values;
  }
  [[nodiscard]] std::vector<double> weights() const {
    std::vector<double> values;
    for (const Tensor& parameter : net->parameters()) {
      for (const double value : parameter.to_vector<double>()) values.push_back(value);
    }
    return values;
  }
  std::shared_ptr<nn::Sequential> net;
  Tensor x, target;
};

/// The ways to cut 12 samples into the parts of one step.
struct Cut {
  std::int64_t batch, accumulate;
  std::optional<std::int64_t> microbatch;
};
const std::vector<Cut> kCuts{{12, 1, {}}, {12, 1, 5}, {12, 1, 1}, {4, 3, {}}, {6, 2, 4}, {5, 3, 2}};

/// A step of each cut has the loss and the gradients of the whole.
void expect_whole(const std::function<Tensor(const Tensor& output, const Tensor& target)>& whole,
                  const Loss& loss, const LossWeight& weigh_by = {}, const TokenCount& tokens = {}) {
  Tokens reference;
  const Tensor expected_loss = whole((*reference.net)(reference.x), reference.target);
  const std::vector<double> expected = reference.stepped(expected_loss);
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(std::to_string(cut.batch) + " " + std::to_string(cut.accumulate) + " " +
                 std::to_string(cut.microbatch.value_or(0)));
    Tokens tokens_of;
    optim::SGD sgd(*tokens_of.net, {.lr = 1});
    TrainerOptions options{.model = *tokens_of.net, .loss = loss, .optimizer = sgd};
    options.train_loader = tokens_of.batches(cut.batch);
    options.accumulate = cut.accumulate;
    if (cut.microbatch) options.microbatch = *cut.microbatch;
    options.max_duration = "1ba";
    options.weigh_by = weigh_by;
    options.tokens = tokens;
    options.progress_bar = false;
    Trainer trainer(options);
    trainer.fit();
    EXPECT_NEAR(trainer.state().loss.item(), expected_loss.item(), 1e-13);
    const std::vector<double> got = tokens_of.weights();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13) << i;
  }
}

TEST(LossWeights, CrossEntropyDividesByTheTargetsThatCount) {
  const auto whole = [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); };
  expect_whole(whole, nn::CrossEntropyLoss());
  expect_whole(whole, Loss(cross_entropy));
}

TEST(LossWeights, CrossEntropyDividesByTheWeightsOfClasses) {
  const Tensor weight = tensor({0.25, 1.0, 3.0}, {.dtype = DType::f64});
  expect_whole([&](const Tensor& y, const Tensor& t) { return cross_entropy(y, t, weight); },
               nn::CrossEntropyLoss({.weight = weight}));
  const Tensor classes = tensor<std::int64_t>({0, 1, 2, 1});
  EXPECT_EQ(nn::CrossEntropyLoss({.weight = weight, .ignore_index = 1}).mean_divisor(classes).item(), 3.25);
}

TEST(LossWeights, NLLLossLikewise) {
  const auto log_softmax_first = [](const Tensor& y) { return log_softmax(y, 1); };
  Tokens tokens;
  EXPECT_EQ(nn::NLLLoss().mean_divisor(tokens.target).item(), 2 * (5 + 4 + 3 + 2 + 1));
  EXPECT_FALSE(nn::NLLLoss({.reduction = Reduction::sum}).weighs_targets());
  EXPECT_FALSE(nn::MSELoss().weighs_targets());
  const Tensor divisor = nn::NLLLoss().mean_divisor(tokens.target);
  const Tensor y = log_softmax_first((*tokens.net)(tokens.x));
  EXPECT_NEAR((nll_loss(y, tokens.target) * divisor).item(),
              nll_loss(y, tokens.target, {.reduction = Reduction::sum}).item(), 1e-12);
}

TEST(LossWeights, ProbabilitiesCountByRows) {
  const Tensor rows = softmax(randn({7, 3, 5}), 1);
  EXPECT_EQ(nn::CrossEntropyLoss().mean_divisor(rows).item(), 35);
  EXPECT_EQ(nn::CrossEntropyLoss().mean_divisor(softmax(randn({4}), 0)).item(), 1);
}

TEST(LossWeights, AFunctionOrTokens) {
  const auto masked = [](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); };
  const auto count = [](const data::Example& batch) { return sum(batch.target.ne(-100)).item(); };
  // Of a loss that the trainer cannot look into.
  expect_whole(masked, Loss([](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }),
               LossWeight(count));
  expect_whole(masked, Loss([](const Tensor& y, const Tensor& t) { return cross_entropy(y, t); }),
               WeighBy::tokens, TokenCount(count));
}

TEST(LossWeights, EvaluationsToo) {
  Tokens tokens;
  const double expected = cross_entropy((*tokens.net)(tokens.x), tokens.target).item();
  for (const std::int64_t size : {12, 5, 2, 1}) {
    const auto results = evaluate(*tokens.net, tokens.batches(size), {}, {.loss = nn::CrossEntropyLoss()});
    EXPECT_NEAR(results.at("loss"), expected, 1e-13) << size;
    optim::SGD sgd(*tokens.net, {.lr = 1});
    Trainer trainer({.model = *tokens.net,
                     .loss = nn::CrossEntropyLoss(),
                     .optimizer = sgd,
                     .eval_loader = tokens.batches(size),
                     .metrics = {{"accuracy", Accuracy()}},
                     .progress_bar = false});
    EXPECT_NEAR(trainer.eval().at("loss"), expected, 1e-13) << size;
  }
  const auto by_samples = evaluate(*tokens.net, tokens.batches(5), {},
                                   {.loss = nn::CrossEntropyLoss(), .weigh_by = WeighBy::samples});
  EXPECT_TRUE(std::isnan(by_samples.at("loss"))) << "one batch has nothing that counts";
}

TEST(LossWeights, WhereNothingCountsTheLossIsThatOfOneBatch) {
  Tokens tokens;
  tokens.target.fill_(-100);
  optim::SGD sgd(*tokens.net, {.lr = 1});
  TrainerOptions options{.model = *tokens.net, .loss = nn::CrossEntropyLoss(), .optimizer = sgd};
  options.train_loader = tokens.batches(6);
  options.accumulate = 2;
  options.max_duration = "1ba";
  options.progress_bar = false;
  Trainer trainer(options);
  trainer.fit();
  EXPECT_TRUE(std::isnan(trainer.state().loss.item()));
}

TEST(LossWeights, WhatCannotBeSaysSo) {
  Tokens tokens;
  optim::SGD sgd(*tokens.net, {.lr = 1});
  TrainerOptions options{.model = *tokens.net, .loss = nn::CrossEntropyLoss(), .optimizer = sgd};
  options.train_loader = tokens.batches(6);
  options.max_duration = "1ba";
  options.progress_bar = false;
  options.weigh_by = WeighBy::tokens;
  EXPECT_EQ(message_of<ValueError>([&] { return Trainer(options).state().time.batch; }),
            "Trainer: expected a function that counts tokens, for weigh_by, got none; give .tokens = "
            "[](const Batch& "
            "batch) { return batch.target.numel(); }");
  options.accumulate = 2;
  options.weigh_by = [](const data::Example&) { return -1.0; };
  Trainer trainer(options);
  EXPECT_EQ(message_of<ValueError>([&] {
              trainer.fit();
              return 0;
            }),
            "weigh_by: expected a weight of a batch from 0, got -1; count what the loss is a mean over");
  options.weigh_by = [](const Tensor&) { return 1; };
  EXPECT_NE(message_of<ValueError>([&] { return Trainer(options).state().time.batch; }).find("weigh_by"),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo::train
