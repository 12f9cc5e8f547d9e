// The norm algorithms in a training: at their event, with a checkpoint from before the surgery, and a step.
#include <gtest/gtest.h>

#include "amp/norm_support.h"
#include "mezzo/data.h"
#include "mezzo/io/tensor_file.h"
#include "mezzo/mezzo.h"
#include "mezzo/train.h"

namespace mezzo::train {
namespace {

using algorithms::NormAlgorithmOptions;
using amp::bits;
using amp::testing::devices;
using amp::testing::kWidth;

using NormAlgorithms = std::vector<std::shared_ptr<algorithms::NormAlgorithm>>;

NormAlgorithms all(const NormAlgorithmOptions& options) {
  return {std::make_shared<algorithms::LowPrecisionLayerNorm>(options),
          std::make_shared<algorithms::LowPrecisionGroupNorm>(options),
          std::make_shared<algorithms::FusedLayerNorm>(options)};
}

nn::Sequential make_net() {
  return nn::Sequential{nn::make<nn::Linear>(kWidth, kWidth), nn::make<nn::LayerNorm>(kWidth),
                        nn::make<nn::GroupNorm>(2, kWidth), nn::make<nn::Linear>(kWidth, 1)};
}

/// Keeps the texts of a run: "name: value".
struct Texts final : Sink {
  explicit Texts(std::vector<std::string>& to) : texts(to) {}
  void write(const LogRecord& /*record*/) override {}
  void write_text(const LogText& text) override {
    texts.push_back(std::string(text.name) + ": " + text.value.as_string());
  }
  std::vector<std::string>& texts;
};

std::vector<std::string> types_of(const nn::Sequential& net) {
  std::vector<std::string> types;
  for (const auto& layer : net.children()) types.push_back(layer->type_name());
  return types;
}

TEST(NormAlgorithm, IsAppliedAtItsEventAndTakesCheckpointsOfBefore) {
  const std::string path = ::testing::TempDir() + "/mezzo_norm_algorithm.safetensors";
  const std::vector<std::vector<std::string>> after{{"Linear", "LPLayerNorm", "GroupNorm", "Linear"},
                                                    {"Linear", "LayerNorm", "LPGroupNorm", "Linear"},
                                                    {"Linear", "FusedLayerNorm", "GroupNorm", "Linear"}};
  for (const Device device : devices()) {
    for (const Event when : {Event::init, Event::before_load, Event::after_load}) {
      for (std::size_t i = 0; i < 3; ++i) {
        manual_seed(2);
        nn::Sequential saved = make_net(), net = make_net();
        const std::vector<std::string> plain = types_of(net);
        save_checkpoint(path, {{"", saved}});
        net.to(device);
        optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
        std::vector<std::string> texts;
        std::vector<AnyCallback> watches;
        for (const Event event : {Event::init, Event::before_load, Event::after_load}) {
          watches.push_back(on(event, [&, event](State&) {
            EXPECT_EQ(types_of(net), event < when ? plain : after[i]) << to_string(event);
          }));
        }
        std::vector<data::Example> batches{{ones({3, kWidth}) * arange(kWidth), ones({3, 1})}};
        Trainer trainer({.model = net,
                         .loss = nn::MSELoss(),
                         .optimizer = sgd,
                         .train_loader = batches,
                         .max_duration = 1,
                         .precision = "amp_bf16",
                         .algorithms = {all({.apply_at = when})[i]},
                         .callbacks = watches,
                         .sinks = {Texts(texts)},
                         .progress_bar = false,
                         .load = path,
                         .load_weights_only = true});
        ASSERT_EQ(texts.size(), 1U);
        EXPECT_TRUE(texts[0].starts_with(all({})[i]->name() + ": ")) << texts[0];
        EXPECT_EQ(bits(net.parameters()), bits(saved.parameters()));
        const Tensor before = net.parameters()[2].detach().clone();
        trainer.fit();
        EXPECT_NE(bits(net.parameters()[2]), bits(before)) << "the norm's weight is trained";
      }
    }
  }
}

TEST(NormAlgorithm, SaysItsNameAndIsAppliedAtInitByDefault) {
  const std::vector<std::string> names{"LowPrecisionLayerNorm", "LowPrecisionGroupNorm", "FusedLayerNorm"};
  const NormAlgorithms recipe = all({});
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(recipe[i]->name(), names[i]);
    EXPECT_TRUE(recipe[i]->match(Event::init));
    EXPECT_FALSE(recipe[i]->match(Event::after_load));
  }
}

TEST(NormAlgorithm, HandsOptionsAndPrecisionOn) {
  for (const char* precision : {"fp32", "amp_bf16"}) {
    nn::Sequential net = make_net();
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    std::vector<data::Example> batches{{ones({3, kWidth}), ones({3, 1})}};
    const algorithms::LowPrecisionLayerNorm algorithm({.surgery = {.parameters = amp::NormParameters::f32}});
    const Trainer trainer({.model = net,
                           .loss = nn::MSELoss(),
                           .optimizer = sgd,
                           .train_loader = batches,
                           .precision = precision,
                           .algorithms = {algorithm},
                           .progress_bar = false});
    const auto* const norm = dynamic_cast<const amp::LPLayerNorm*>(net.children()[1].get());
    ASSERT_EQ(norm != nullptr, std::string(precision) == "amp_bf16");
    EXPECT_TRUE(norm == nullptr || norm->norm_parameters() == amp::NormParameters::f32);
  }
}

/// Notes the dtype of what comes through.
struct Probe final : nn::Layer {
  explicit Probe(DType& to) : seen(to) {}
  Tensor forward(const Tensor& x) override { return seen = x.dtype(), x; }
  DType& seen;
};

TEST(TrainerPrecision, HasRulesByModuleThatStayWithNormsOfAlgorithms) {
  DType first{}, normed{}, last{};
  nn::Sequential net{nn::Linear(kWidth, kWidth), Probe(first), nn::LayerNorm(kWidth), Probe(normed),
                     nn::Linear(kWidth, 1),      Probe(last)};
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  std::vector<data::Example> batches{{ones({3, kWidth}), ones({3, 1})}};
  {
    Trainer trainer({.model = net,
                     .loss = nn::MSELoss(),
                     .optimizer = sgd,
                     .train_loader = batches,
                     .max_duration = 1,
                     .precision = "amp_bf16",
                     .module_precision = {{"0", DType::f16}, {"2", DType::f16}, {"4", DType::f32}},
                     .algorithms = {algorithms::LowPrecisionLayerNorm{}},
                     .progress_bar = false});
    trainer.fit();
    EXPECT_EQ(first, DType::f16);
    EXPECT_EQ(normed, DType::f16) << "the low-precision norm runs in its region's dtype";
    EXPECT_EQ(last, DType::f32);
  }
  const amp::Autocast region(Device::cpu(), DType::bf16);
  static_cast<void>(net(batches[0].data));
  EXPECT_EQ(first, DType::bf16) << "rules end with the trainer";
  optim::SGD other(net.parameters(), {.lr = 0.1});
  EXPECT_THROW(Trainer({.model = net,
                        .loss = nn::MSELoss(),
                        .optimizer = other,
                        .train_loader = batches,
                        .max_duration = 1,
                        .module_precision = {{"head", DType::f32}},
                        .progress_bar = false}),
               ValueError);
}

TEST(NormAlgorithm, RefusesAnEventThatIsNotItsOwn) {
  EXPECT_THROW(all({.apply_at = Event::fit_start}), ValueError);
  EXPECT_THROW(all({.apply_at = static_cast<Event>(77)}), ValueError);
}

}  // namespace
}  // namespace mezzo::train
