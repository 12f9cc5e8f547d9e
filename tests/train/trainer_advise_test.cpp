// Trainer::advise: it says what amp::advise says of the trainer's steps, and changes nothing.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "mezzo/data.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"
#include "mezzo/train.h"

namespace mezzo::train {
namespace {

constexpr amp::AdviseOptions kFew{.warmup = 1, .steps = 2};

struct Training {
  explicit Training(const char* precision, bool with_loader = true) {
    manual_seed(7);
    net = nn::make<nn::Sequential>(nn::Linear(12, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Dropout(0.25),
                                   nn::Linear(32, 4));
    adam.emplace(*net, optim::AdamWOptions{.lr = 0.01});
    Generator generator(11);
    loader.emplace(data::TensorDataset(randn({40, 12}, {}, generator), randint(0, 4, {40}, {}, generator)),
                   data::DataLoaderOptions{.batch_size = 8, .shuffle = true, .seed = 5});
    TrainerOptions options{.model = net,
                           .loss = nn::CrossEntropyLoss(),
                           .optimizer = *adam,
                           .max_duration = "4ep",
                           .precision = precision,
                           .clip_norm = 1.0,
                           .progress_bar = false};
    if (with_loader) options.train_loader = *loader;
    trainer.emplace(std::move(options));
  }
  /// Values of model and optimizer.
  [[nodiscard]] std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const auto& [name, tensor] : net->state_dict())
      all.push_back(tensor.to(DType::f64).to_vector<double>());
    for (const auto& [name, tensor] : adam->state_dict().tensors)
      all.push_back(tensor.to(DType::f64).to_vector<double>());
    return all;
  }

  std::shared_ptr<nn::Sequential> net;
  std::optional<optim::AdamW> adam;
  std::optional<data::DataLoader<>> loader;
  std::optional<Trainer> trainer;
};

TEST(TrainerAdvise, LeavesTheTrainingAsItWas) {
  for (const char* const precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    Training plain(precision);
    plain.trainer->fit();
    const auto expected = plain.values();
    Training advised(precision);
    static_cast<void>(advised.trainer->advise(kFew));
    advised.trainer->fit("2ep");
    const auto before = advised.values();
    const amp::Advisory advisory = advised.trainer->advise(kFew);
    EXPECT_EQ(advised.values(), before) << precision;
    EXPECT_EQ(advisory.dtype, std::string(precision) == "amp_fp16" ? DType::f16 : DType::bf16);
    EXPECT_GT(advisory.seconds, 0);
    advised.trainer->fit("2ep");
    EXPECT_EQ(advised.values(), expected) << precision;
  }
}

TEST(TrainerAdvise, TriesOtherModelsOnClones) {
  Training training("amp_bf16");
  const amp::Advisory advisory = training.trainer->advise(kFew);
  EXPECT_EQ(advisory.autocast.modules.at(0).type, "Sequential");
  EXPECT_EQ(to_string(advisory).find("other batches, norms"), std::string::npos) << advisory;
  bool clips = false;
  for (const profile::PhaseRow& row : advisory.autocast.phases) clips |= row.phase == "clip";
  EXPECT_TRUE(clips) << "the steps are the trainer's";
}

TEST(TrainerAdvise, SaysWhyAModelCannotBeCloned) {
  struct Unknown final : nn::Layer {
    Unknown() = default;
    Unknown(const Unknown&) = delete;
    nn::Child<nn::Linear> fc{*this, "fc", nn::Linear(4, 4)};
    Tensor forward(const Tensor& x) override { return fc(x); }
  };
  Unknown net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const std::vector<data::Example> batches{{randn({8, 4}), randn({8, 4})}};
  Trainer trainer({.model = net,
                   .loss = nn::MSELoss(),
                   .optimizer = sgd,
                   .train_loader = batches,
                   .progress_bar = false});
  const amp::Advisory advisory = trainer.advise(kFew);
  ASSERT_FALSE(advisory.untried.empty());
  EXPECT_NE(advisory.untried[0].find("the model cannot be cloned"), std::string::npos) << advisory;
}

TEST(TrainerAdvise, RefusesATrainingWithoutALoader) {
  Training training("fp32", false);
  EXPECT_EQ(test::message_of<ValueError>([&] { static_cast<void>(training.trainer->advise()); }),
            "Trainer::advise: expected a train_loader, got none; give .train_loader = loader");
}

}  // namespace
}  // namespace mezzo::train
