// Each algorithm of a trainer has the bits of the same thing written into a loop by hand, in all precisions,
// with microbatches, accumulation and skipped steps.
#include "mezzo/train/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mezzo/tests/support/message_of.h"
#include "mezzo/tests/train/altered_loop.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {
namespace {

using test::message_of;

constexpr int kSteps = 7;
const Time kDuration(kSteps, TimeUnit::batch);

class Algorithms : public testing::TestWithParam<AlteredLoopOptions> {
 protected:
  /// Trains both ways, and expects the same bits and, in f16 with a large scale, skipped steps.
  void expect_equal(std::vector<AnyCallback> algorithms, const AlteredLoop::Changes& changes) {
    trained.train(kDuration, std::move(algorithms));
    expect_like_by_hand(changes);
  }
  void expect_like_by_hand(const AlteredLoop::Changes& changes) {
    by_hand.emplace(GetParam());
    by_hand->run(kSteps, changes);
    EXPECT_EQ(trained.bits(), by_hand->bits());
    if (GetParam().init_scale > 0x1p20) {
      EXPECT_GT(by_hand->skipped, 0);
      EXPECT_LT(by_hand->skipped, kSteps);
    }
    AlteredLoop plain(GetParam());
    plain.run(kSteps, {});
    plain_bits = plain.bits();
  }

  AlteredLoop trained{GetParam()};
  std::optional<AlteredLoop> by_hand;
  std::vector<std::string> plain_bits;  // of a training without changes
  std::vector<double> shares_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Algorithms, testing::ValuesIn(altered_loop_ways()),
                         [](const auto& way) { return "way" + std::to_string(way.index); });

TEST_P(Algorithms, ClippingByNorm) {
  expect_equal({algorithms::GradientClipping({.norm = 0.1})},
               {.gradients = [&] { optim::clip_grad_norm_(by_hand->net->parameters(), 0.1); }});
  EXPECT_NE(trained.bits(), plain_bits);
}

TEST_P(Algorithms, ClippingByValue) {
  expect_equal({algorithms::GradientClipping({.value = 1e-3})},
               {.gradients = [&] { optim::clip_grad_value_(by_hand->net->parameters(), 1e-3); }});
  EXPECT_NE(trained.bits(), plain_bits);
}

TEST_P(Algorithms, EmaAveragesStepsThatWereMade) {
  const auto ema = std::make_shared<algorithms::EMA>(optim::EMAOptions{.decay = 0.5, .use_buffers = true});
  trained.train(kDuration, {ema});
  std::optional<optim::EMA> average;
  expect_like_by_hand({.before_step =
                           [&](int step) {
                             if (step == 0) average.emplace(*by_hand->net, optim::EMAOptions{0.5, true});
                           },
                       .after_step = [&](int, const amp::StepResult& result) { average->update(result); }});
  EXPECT_EQ(AlteredLoop::bits(ema->average().state_dict()), AlteredLoop::bits(average->state_dict()));
  EXPECT_EQ(ema->average().state_dict()[0].second.item<std::int64_t>(), kSteps - by_hand->skipped);
  EXPECT_EQ(trained.bits(), plain_bits);
}

TEST_P(Algorithms, SwaAveragesEveryFewBatchesFromItsStart) {
  const auto swa = std::make_shared<algorithms::SWA>(
      algorithms::SWAOptions{.start = "3ba", .update_interval = Time(2, TimeUnit::batch)});
  trained.train(kDuration, {swa});
  std::optional<optim::SWA> average;
  expect_like_by_hand({.before_step =
                           [&](int step) {
                             if (step == 0) average.emplace(*by_hand->net);
                           },
                       .after_step =
                           [&](int step, const amp::StepResult&) {
                             if (step + 1 == 4 || step + 1 == 6) average->update();
                           }});
  EXPECT_EQ(AlteredLoop::bits(swa->average().state_dict()), AlteredLoop::bits(average->state_dict()));
}

TEST_P(Algorithms, LabelSmoothingMakesTheTargetsProbabilities) {
  std::int64_t dims_seen_by_others = 0;
  expect_equal(
      {algorithms::LabelSmoothing({.smoothing = 0.2}),
       on(Event::after_loss,
          [&](State& state) { dims_seen_by_others = state.batch.get<data::Example>().target.dim(); })},
      {.target = [](const Tensor& target, const Tensor&) {
        return one_hot(target, 4).to(DType::f32) * (1 - 0.2) + 0.2 / 4;
      }});
  EXPECT_EQ(dims_seen_by_others, 1) << "the class indices are back";
  EXPECT_NE(trained.bits(), plain_bits);
}

/// The batches of a training as an algorithm after `mixer` sees them.
struct SeenBatches {
  std::vector<data::Example> batches = {};
  [[nodiscard]] AnyCallback record() {
    return on(Event::after_dataloader,
              [this](State& state) { batches.push_back(state.batch.get<data::Example>()); });
  }
};

TEST_P(Algorithms, MixUpAndCutMixTrainOnTheMixture) {
  SeenBatches seen;
  expect_equal({algorithms::MixUp({.num_classes = 4, .alpha = 0.4, .seed = 7}), seen.record()},
               {.batch = [&](const data::Example& plain, int step, int place) {
                 const auto index = static_cast<std::size_t>(step * GetParam().accumulate + place);
                 const data::Example& batch = seen.batches.at(index);
                 const Tensor labels = one_hot(plain.target, 4).to(DType::f32);
                 // One share for the whole batch, found from the first sample that meets another class.
                 const Tensor others = roll(labels, 1, 0);
                 double share = -1;
                 for (std::int64_t i = 0; i < 8 && share < 0; ++i) {
                   if (!equal(labels[i], others[i]))
                     share = batch.target[i][plain.target[i].item<std::int64_t>()].item();
                 }
                 EXPECT_TRUE(allclose(batch.target, labels * share + others * (1 - share), 1e-6, 1e-6));
                 EXPECT_TRUE(allclose(batch.data, plain.data * share + roll(plain.data, 1, 0) * (1 - share),
                                      1e-5, 1e-6));
                 shares_.push_back(share);
                 return batch;
               }});
  EXPECT_NE(trained.bits(), plain_bits);
  std::sort(shares_.begin(), shares_.end());
  EXPECT_EQ(std::unique(shares_.begin(), shares_.end()), shares_.end()) << "each batch draws its own share";
}

TEST_P(Algorithms, SmoothedMixtures) {
  SeenBatches seen;
  expect_equal(
      {algorithms::MixUp({.num_classes = 4}), algorithms::LabelSmoothing({.smoothing = 0.3}), seen.record()},
      {.batch =
           [&](const data::Example&, int step, int place) {
             return seen.batches.at(static_cast<std::size_t>(step * GetParam().accumulate + place));
           },
       .target = [](const Tensor& target, const Tensor&) { return target * (1 - 0.3) + 0.3 / 4; }});
}

TEST_P(Algorithms, LayerFreezingLeavesFrozenLayersAlone) {
  // Modules with parameters: Linear, BatchNorm1d, Linear, Linear.
  const auto freezing = std::make_shared<algorithms::LayerFreezing>(
      algorithms::LayerFreezingOptions{.start = 0.25, .level = 1});
  std::vector<std::int64_t> counts;
  expect_equal({freezing, on(Event::batch_end, [&](State&) { counts.push_back(freezing->frozen()); })},
               {.before_step = [&](int step) {
                 const double progress = static_cast<double>(step) / kSteps;
                 const double frozen = std::floor(4 * (progress - 0.25) / 0.75);
                 const std::vector<std::vector<std::string>> layers{
                     {"0.weight", "0.bias"}, {"1.weight", "1.bias"}, {"4.weight", "4.bias"}};
                 for (int layer = 0; layer < 3; ++layer) {
                   if (layer >= frozen) break;
                   for (const auto& [name, parameter] : by_hand->net->named_parameters()) {
                     if (name != layers[static_cast<std::size_t>(layer)][0] &&
                         name != layers[static_cast<std::size_t>(layer)][1])
                       continue;
                     parameter.set_grad({});
                     parameter.requires_grad_(false);
                   }
                 }
               }});
  EXPECT_EQ(counts, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 2, 3}));
  EXPECT_NE(trained.bits(), plain_bits);
  EXPECT_FALSE(trained.net->parameters()[0].requires_grad());
  EXPECT_TRUE(trained.net->parameters().back().requires_grad());
}

TEST(ClippingWithSam, IsOfEachEvaluation) {
  AlteredLoop trained, by_hand;
  optim::SAM sam(*trained.optimizer, {.rho = 0.1}), sam_by_hand(*by_hand.optimizer, {.rho = 0.1});
  TrainerOptions options = trained.trainer("5ba", {algorithms::GradientClipping({.norm = 0.05})});
  options.optimizer = sam;
  Trainer(options).fit();
  manual_seed(5);
  for (int step = 0; step < 5; ++step) {
    const data::Example& batch = by_hand.batches[static_cast<std::size_t>(step)];
    sam_by_hand.step([&] {
      by_hand.optimizer->zero_grad();
      const Tensor loss = cross_entropy((*by_hand.net)(batch.data), batch.target);
      loss.backward();
      optim::clip_grad_norm_(by_hand.net->parameters(), 0.05);
      return loss;
    });
  }
  EXPECT_EQ(trained.bits(), by_hand.bits());
}

TEST(LayersThatShare, FreezeWithTheLast) {
  struct Tied final : nn::Layer {
    nn::Child<nn::Linear> first{*this, "first", nn::Linear(6, 6)};
    nn::Child<nn::Linear> second{*this, "second", nn::Linear(6, 6)};
    nn::Param tied{*this, "tied", first->weight};  // the model's own layer comes before both
    nn::Child<nn::Linear> last{*this, "last", nn::Linear(6, 4)};
    Tensor forward(const Tensor& x) override { return last(second(first(matmul(x, tied)))); }
  };
  AlteredLoop loop;
  Tied net;
  optim::SGD sgd(net, {.lr = 0.1});
  TrainerOptions options = loop.trainer("4ba", {algorithms::LayerFreezing({.start = 0})});
  options.model = net;
  options.optimizer = sgd;
  // Layers: the model itself, first, second, last; one more is frozen after each quarter.
  std::vector<bool> tied_trains, second_trains;
  options.callbacks = {on(Event::batch_end, [&](State&) {
    tied_trains.push_back(net.tied->requires_grad());
    second_trains.push_back(net.second->weight->requires_grad());
  })};
  Trainer(options).fit();
  EXPECT_EQ(tied_trains, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(second_trains, (std::vector<bool>{true, true, true, false}));
}

// --- of images

AlteredLoopOptions of_images(amp::Precision precision = amp::Precision::fp32) {
  return {.precision = precision, .microbatch = 4, .images = true};
}

TEST(ImageAlgorithms, CutMixPastesABoxOfTheNeighbour) {
  AlteredLoop trained(of_images()), by_hand(of_images());
  SeenBatches seen;
  trained.train(kDuration, {algorithms::CutMix({.num_classes = 4, .seed = 2}), seen.record()});
  double pasted = 0;
  by_hand.run(
      kSteps, {.batch = [&](const data::Example& plain, int step, int /*place*/) {
        const data::Example& batch = seen.batches.at(static_cast<std::size_t>(step));
        const Tensor own = eq(batch.data, plain.data);
        const Tensor others = eq(batch.data, roll(plain.data, 1, 0));
        EXPECT_TRUE(logical_or(own, others).all().item<bool>());
        const double share = own.to(DType::f64).mean().item();
        const Tensor labels = one_hot(plain.target, 4).to(DType::f32);
        EXPECT_TRUE(allclose(batch.target, labels * share + roll(labels, 1, 0) * (1 - share), 1e-5, 1e-6));
        pasted += 1 - share;
        return batch;
      }});
  EXPECT_GT(pasted, 0);
  EXPECT_EQ(trained.bits(), by_hand.bits());
}

TEST(ImageAlgorithms, ProgressiveResizingGrowsToTheFullSize) {
  AlteredLoop trained(of_images()), by_hand(of_images());
  SeenBatches seen;
  trained.train(
      "10ba",
      {algorithms::ProgressiveResizing(
           {.initial_scale = 0.5, .delay_fraction = 0.2, .finetune_fraction = 0.3, .size_increment = 2}),
       seen.record()});
  // Of 12 x 8: the scale is 0.5 until batch 2, then 0.5, 0.6, ..., 0.9, and 1 from batch 7 on.
  const std::vector<data::ImageSize> sizes{{6, 4},  {6, 4},  {6, 4},  {8, 4},  {8, 6},
                                           {10, 6}, {10, 8}, {12, 8}, {12, 8}, {12, 8}};
  by_hand.run(10, {.batch = [&](const data::Example& plain, int step, int /*place*/) {
                const data::ImageSize size = sizes.at(static_cast<std::size_t>(step));
                EXPECT_EQ(seen.batches.at(static_cast<std::size_t>(step)).data.shape(),
                          (Shape{8, 3, size.height, size.width}))
                    << step;
                return data::Example{step < 7 ? data::resize(plain.data, size) : plain.data, plain.target};
              }});
  EXPECT_EQ(trained.bits(), by_hand.bits());
}

TEST(ImageAlgorithms, ProgressiveResizingOfTargetsKeepsTheirValues) {
  AlteredLoop loop(of_images());
  for (auto& batch : loop.batches) batch.target = gt(batch.data, 0.5).to(DType::i64);
  SeenBatches seen;
  TrainerOptions options =
      loop.trainer("2ba", {algorithms::ProgressiveResizing({.resize_targets = true}), seen.record()});
  options.loss = [](const Tensor& output, const Tensor& /*masks*/) { return output.sum(); };
  Trainer(options).fit();
  const data::Example& batch = seen.batches.at(0);
  EXPECT_EQ(batch.data.shape(), (Shape{8, 3, 8, 4}));  // 6 x 4 in multiples of 4
  EXPECT_EQ(batch.target.shape(), (Shape{8, 3, 8, 4}));
  EXPECT_EQ(batch.target.dtype(), DType::i64);
  // The pixel in the middle of what a new one covers: rows (i + 0.5) 12 / 8, columns (j + 0.5) 8 / 4.
  const Tensor rows = index_select(loop.batches[0].target, 2, tensor({0, 2, 3, 5, 6, 8, 9, 11}));
  EXPECT_TRUE(equal(batch.target, index_select(rows, 3, tensor({1, 3, 5, 7}))));
}

TEST(ImageAlgorithms, ChannelsLastConvertsBatchesAndNotTheLoadersOwn) {
  for (const auto precision : {amp::Precision::fp32, amp::Precision::amp_bf16}) {
    AlteredLoop trained(of_images(precision)), by_hand(of_images(precision));
    TrainerOptions options = trained.trainer(kDuration, {algorithms::ChannelsLast()});
    options.eval_loader = trained.batches;
    options.metrics = {{"accuracy", Accuracy()}};
    int evaluated = 0;
    const auto expect_format = [&](State& state) {
      EXPECT_TRUE(state.output.defined());
      EXPECT_TRUE(state.batch.get<data::Example>().data.is_contiguous(MemoryFormat::channels_last));
      ++evaluated;
    };
    options.callbacks = {on(Event::eval_after_forward, expect_format),
                         on(Event::after_forward, expect_format)};
    Trainer(options).fit();
    EXPECT_EQ(evaluated, 2 * kSteps + 12);
    EXPECT_TRUE(trained.batches[0].data.is_contiguous());
    by_hand.run(kSteps, {.batch = [](const data::Example& plain, int, int) {
                  return data::Example{plain.data.contiguous(MemoryFormat::channels_last), plain.target};
                }});
    EXPECT_EQ(trained.bits(), by_hand.bits());
  }
}

// --- refusals

TEST(AlgorithmRefusals, OptionsThatMakeNoSense) {
  using namespace algorithms;
  EXPECT_EQ(message_of<ValueError>([] { GradientClipping({}); }),
            "GradientClipping: expected norm or value, got neither; {.norm = 1} is usual");
  EXPECT_THROW(GradientClipping({.norm = 1, .value = 1}), ValueError);
  EXPECT_THROW(GradientClipping({.norm = -1}), ValueError);
  EXPECT_THROW(GradientClipping({.value = NAN}), ValueError);
  EXPECT_THROW(GradientClipping({.norm = 1, .norm_type = NAN}), ValueError);
  EXPECT_EQ(message_of<ValueError>([] { EMA({.decay = 1.5}); }),
            "EMA: expected decay in [0, 1], got 1.5; 0.999 is usual");
  EXPECT_THROW(EMA({.decay = NAN}), ValueError);
  EXPECT_THROW(SWA({.update_interval = "0ba"}), ValueError);
  EXPECT_THROW(static_cast<void>(SWA().average()), StateError);
  EXPECT_THROW(LayerFreezing({.start = 1}), ValueError);
  EXPECT_THROW(LayerFreezing({.level = 1.1}), ValueError);
  EXPECT_THROW(LabelSmoothing({.smoothing = -0.1}), ValueError);
  EXPECT_EQ(message_of<ValueError>([] { MixUp({}); }),
            "MixUp: expected num_classes of at least 1, got 0; say how many classes there are");
  EXPECT_THROW(MixUp({.num_classes = 4, .alpha = 0}), ValueError);
  EXPECT_THROW(CutMix({.num_classes = 4, .alpha = -1}), ValueError);
  EXPECT_THROW(CutMix({.num_classes = -4}), ValueError);
  EXPECT_THROW(ProgressiveResizing({.initial_scale = 0}), ValueError);
  EXPECT_THROW(ProgressiveResizing({.delay_fraction = 0.6, .finetune_fraction = 0.5}), ValueError);
  EXPECT_THROW(ProgressiveResizing({.size_increment = 0}), ValueError);
}

/// The text of what a training with this algorithm throws.
std::string refusal(AnyCallback algorithm, AlteredLoop& loop) {
  return message_of<CallbackError>([&] { loop.train("2ba", {std::move(algorithm)}); });
}

TEST(AlgorithmRefusals, BatchesThatDoNotFit) {
  AlteredLoop loop;
  EXPECT_NE(refusal(algorithms::CutMix({.num_classes = 4}), loop).find("CutMix"), std::string::npos);
  EXPECT_NE(refusal(algorithms::MixUp({.num_classes = 2}), loop)
                .find("Trainer: expected MixUp to return at "
                      "after_dataloader, got an exception: "),
            std::string::npos);
  EXPECT_NE(
      refusal(algorithms::ProgressiveResizing(), loop)
          .find("ProgressiveResizing: expected images [N, C, H, W], got [8, 6]; take it out of the recipe"),
      std::string::npos);
  // Batches that are no Example.
  std::vector<Tensor> tensors(3, randn({4, 6}));
  TrainerOptions options = loop.trainer("1ba", {algorithms::LabelSmoothing()});
  options.train_loader = tensors;
  options.loss = [](const Tensor& output, const Tensor& batch) {
    return (output.sum() + batch.sum()) / 100.0;
  };
  EXPECT_NE(message_of<CallbackError>([&] {
              Trainer(options).fit();
            }).find("LabelSmoothing: expected a batch of type Example, got Tensor"),
            std::string::npos);
}

}  // namespace
}  // namespace mezzo::train
