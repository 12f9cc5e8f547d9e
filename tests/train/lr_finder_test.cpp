// find_lr: losses and rates of a loop by hand, and a training that is what it was before.
#include "mezzo/train/lr_finder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"

namespace mezzo::train {
namespace {

using test::message_of;

TEST(FindingALearningRate, RecordsTheLossesOfALoopByHand) {
  for (const AlteredLoopOptions& way : altered_loop_ways()) {
    AlteredLoop loop(way), by_hand(way);
    const LRFinderResult found =
        find_lr(loop.trainer("3ep"), {.min_lr = 1e-4, .max_lr = 1, .steps = 16, .smoothing = 0.5});
    std::vector<double> rates, losses, smoothed;
    double weighed = 0, mean = 0;
    by_hand.run(16, {.before_step =
                         [&](int step) {
                           rates.push_back(1e-4 * std::pow(1e4, step / 15.0));
                           by_hand.optimizer->set_lr(rates.back());
                           weighed = 0;
                         },
                     .target =
                         [&](const Tensor& target, const Tensor& output) {
                           const NoGrad no_grad;
                           weighed +=
                               cross_entropy(output, target).item() * static_cast<double>(target.size(0));
                           return target;
                         },
                     .after_step =
                         [&](int step, const amp::StepResult&) {
                           mean = 0.5 * mean + 0.5 * weighed / (8 * static_cast<double>(way.accumulate));
                           smoothed.push_back(mean / (1 - std::pow(0.5, step + 1)));
                         }});
    ASSERT_FALSE(found.diverged);
    EXPECT_EQ(found.rates, rates);
    ASSERT_EQ(found.losses.size(), smoothed.size());
    for (std::size_t i = 0; i < smoothed.size(); ++i) EXPECT_NEAR(found.losses[i], smoothed[i], 1e-6);
  }
}

TEST(FindingALearningRate, LeavesNoProfile) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("3ep");
  const std::string folder = testing::TempDir() + "mezzo_lr_profile_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  options.profile = {.from = 0, .steps = 1, .folder = folder};
  static_cast<void>(find_lr(options, {.min_lr = 1e-4, .max_lr = 1, .steps = 4}));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

/// A loss that is f(rate) whatever the model does.
LRFinderResult found_for(const std::function<double(double)>& f, const LRFinderOptions& finder) {
  AlteredLoop loop;
  TrainerOptions options = loop.trainer("100ba");
  options.loss = [&](const Tensor& output, const Tensor& /*target*/) {
    return output.sum() * 0.0 + f(loop.optimizer->lr());
  };
  return find_lr(options, finder);
}

TEST(FindingALearningRate, SuggestsTheSteepestDescent) {
  // A step down at 1e-2, in the logarithm of the rate.
  const auto f = [](double rate) { return 2 - std::tanh(4 * (std::log10(rate) + 2)); };
  const LRFinderResult found = found_for(f, {.min_lr = 1e-4, .max_lr = 1, .steps = 41, .smoothing = 0});
  ASSERT_TRUE(found.suggestion.has_value());
  EXPECT_NEAR(*found.suggestion, 1e-2, 1e-5);
  EXPECT_FALSE(found.diverged);
  EXPECT_EQ(found.rates.size(), 41U);
  EXPECT_NEAR(found.rates.back(), 1, 1e-12);
  EXPECT_NEAR(found.losses[30], f(found.rates[30]), 1e-6);
}

TEST(FindingALearningRate, StopsWhereTheLossDiverges) {
  const LRFinderOptions finder{.min_lr = 1e-4, .max_lr = 1, .steps = 41, .smoothing = 0};
  const auto above = found_for([](double rate) { return rate < 0.05 ? 1.0 : 5.0; }, finder);
  EXPECT_TRUE(above.diverged);
  EXPECT_GT(above.rates.back(), 0.05);
  EXPECT_LT(above.rates.back(), 0.07);
  EXPECT_FALSE(above.suggestion.has_value()) << "it falls nowhere";
  const auto infinite = found_for([](double rate) { return rate < 0.05 ? 1.0 : INFINITY; }, finder);
  EXPECT_TRUE(infinite.diverged);
  EXPECT_LT(infinite.rates.back(), 0.05);
}

TEST(FindingALearningRate, LeavesTheTrainingAsItWas) {
  for (const bool throws : {false, true}) {
    Generator generator(4);
    nn::Sequential net(nn::Linear(6, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 4));
    net.at<nn::Layer>(0).requires_grad_(false);
    net.at<nn::Layer>(1).eval();
    optim::SGD sgd(net, {.lr = 0.125, .momentum = 0.9});
    data::DataLoader loader(
        data::TensorDataset(randn({32, 6}, {}, generator), randint(0, 4, {32}, {}, generator)),
        {.batch_size = 4, .shuffle = true, .seed = 3});
    int batches = 0;
    for (const auto& [x, y] : loader) {  // somewhere in an epoch, with state in the optimizer
      cross_entropy(net(x), y).backward();
      sgd.step();
      sgd.zero_grad();
      if (++batches == 3) break;
    }
    const auto before = AlteredLoop::bits(net.state_dict());
    const auto optimizer_before = AlteredLoop::bits(sgd.state_dict().tensors);
    const auto random_before = default_generator().state();
    const Value loader_before = loader.state_dict();
    TrainerOptions options{.model = net, .loss = nn::CrossEntropyLoss()};
    options.optimizer = sgd;
    options.train_loader = loader;
    options.max_duration = "2ep";
    options.save.folder = "/proc/mezzo-nothing-is-saved";  // nobody can make it
    options.on_signal = OnSignal::save_and_stop;
    options.algorithms = {algorithms::LayerFreezing({.start = 0, .level = 1}), algorithms::EMA()};
    if (throws) {
      options.algorithms.push_back(on(Event::batch_end, [](State& state) {
        if (state.time.batch == 5) throw ValueError("test", "no error", "one", "");
      }));
      EXPECT_THROW(static_cast<void>(find_lr(options)), CallbackError);
    } else {
      EXPECT_GT(find_lr(options, {.steps = 20}).losses.size(), 10U);
    }
    EXPECT_EQ(AlteredLoop::bits(net.state_dict()), before);
    EXPECT_EQ(AlteredLoop::bits(sgd.state_dict().tensors), optimizer_before);
    EXPECT_EQ(sgd.lr(), 0.125);
    EXPECT_EQ(default_generator().state().seed, random_before.seed);
    EXPECT_EQ(default_generator().state().offset, random_before.offset);
    EXPECT_EQ(loader.state_dict().to_string(), loader_before.to_string());
    EXPECT_FALSE(net.at<nn::Layer>(0).parameters()[0].requires_grad());
    EXPECT_TRUE(net.at<nn::Layer>(3).parameters()[0].requires_grad());
    EXPECT_FALSE(net.at<nn::Layer>(1).is_training());
    EXPECT_TRUE(net.at<nn::Layer>(2).is_training());
    for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(FindingALearningRate, KeepsTheRatioOfGroups) {
  AlteredLoop loop;
  optim::SGD sgd(std::vector<optim::ParamGroup<optim::SGDOptions>>{
      {loop.net->at<nn::Layer>(0).named_parameters(), {.lr = 0.1}},
      {loop.net->at<nn::Layer>(6).named_parameters(), {.lr = 0.02}}});
  TrainerOptions options = loop.trainer("2ep");
  options.optimizer = sgd;
  std::vector<double> ratios;
  options.algorithms = {on(Event::before_forward, [&](State&) { ratios.push_back(sgd.lr(1) / sgd.lr(0)); })};
  const auto found = find_lr(options, {.steps = 5});
  ASSERT_EQ(ratios.size(), 5U);
  for (const double ratio : ratios) EXPECT_NEAR(ratio, 0.2, 1e-15);
  EXPECT_EQ(sgd.lr(0), 0.1);
  EXPECT_EQ(sgd.lr(1), 0.02);
}

TEST(FindingALearningRate, RefusesWhatMakesNoSense) {
  AlteredLoop loop;
  const auto refuse = [&](const LRFinderOptions& finder) {
    return message_of<ValueError>([&] { return find_lr(loop.trainer("1ep"), finder); });
  };
  EXPECT_EQ(refuse({.min_lr = 0}), "find_lr: expected a min_lr above 0, got 0; 1e-7 is usual");
  EXPECT_NE(refuse({.min_lr = 1, .max_lr = 1}), "");
  EXPECT_NE(refuse({.max_lr = INFINITY}), "");
  EXPECT_NE(refuse({.steps = 1}), "");
  EXPECT_NE(refuse({.smoothing = 1}), "");
  EXPECT_NE(refuse({.stop_factor = 1}), "");
  EXPECT_NE(refuse({.skip_begin = -1}), "");
  EXPECT_NE(refuse({.skip_end = -1}), "");
  optim::LBFGS lbfgs(loop.net->named_parameters());
  TrainerOptions options = loop.trainer("1ep");
  options.optimizer = lbfgs;
  const auto before = loop.bits();
  EXPECT_NE(
      message_of<CallbackError>([&] { return find_lr(options); }).find("find_lr: expected an optimizer"),
      std::string::npos);
  EXPECT_EQ(loop.bits(), before);
  EXPECT_THROW(static_cast<void>(find_lr({})), ValueError);
}

}  // namespace
}  // namespace mezzo::train
