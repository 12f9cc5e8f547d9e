// The norm algorithms, with a test in the part of the training loop: events in their order, a checkpoint from
// before the surgery, a step.
#include "mezzo/amp/algorithm.h"

#include <gtest/gtest.h>

#include "amp/norm_support.h"
#include "mezzo/nn/linear.h"

namespace mezzo::amp {
namespace {

using namespace testing;
using algorithms::NormAlgorithmOptions;

using Algorithms = std::vector<std::shared_ptr<Algorithm>>;

Algorithms all(const NormAlgorithmOptions& options) {
  return {std::make_shared<algorithms::LowPrecisionLayerNorm>(options),
          std::make_shared<algorithms::LowPrecisionGroupNorm>(options),
          std::make_shared<algorithms::FusedLayerNorm>(options)};
}

nn::Sequential make_net() {
  return nn::Sequential{nn::make<nn::Linear>(kWidth, kWidth), nn::make<nn::LayerNorm>(kWidth),
                        nn::make<nn::GroupNorm>(2, kWidth), nn::make<nn::Linear>(kWidth, 1)};
}

/// What a training loop does: tells the algorithms of each event, and loads a checkpoint in between.
struct Trainer {
  TrainingState state;
  std::vector<std::string> applied = {};

  void tell(Event event, const Algorithms& recipe) {
    for (const auto& algorithm : recipe) {
      if (!algorithm->match(event)) continue;
      const nn::surgery::Report report = algorithm->apply(event, state);
      applied.push_back(algorithm->name() + " " + std::to_string(report.replaced().size()));
    }
  }
};

TEST(NormAlgorithm, IsAppliedAtItsEventAndCheckpointsOfBeforeLoad) {
  for (const Device device : devices()) {
    for (const Event when : {Event::init, Event::before_load, Event::after_load}) {
      for (std::size_t i = 0; i < 3; ++i) {
        manual_seed(2);
        nn::Sequential saved = make_net(), net = make_net();
        net.to(device);
        optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
        Trainer trainer{{net, "amp_bf16", {&sgd}}};
        const Algorithms recipe{all({.apply_at = when})[i]};
        for (const Event event : {Event::init, Event::before_load, Event::after_load}) {
          if (event == Event::after_load) static_cast<void>(net.load_state_dict(saved.state_dict()));
          trainer.tell(event, recipe);
          EXPECT_EQ(trainer.applied.empty(), event < when);
        }
        EXPECT_EQ(trainer.applied, std::vector<std::string>{recipe[0]->name() + " 1"});
        EXPECT_EQ(bits(net.parameters()), bits(saved.parameters()));
        const Tensor before = net.parameters()[2].detach().clone();
        Tensor loss;
        {
          const Autocast region(device, DType::bf16);
          loss = sum(net(ones({3, kWidth}, {.device = device}) * arange(kWidth).to(device)));
        }
        loss.backward();
        sgd.step();
        EXPECT_NE(bits(net.parameters()[2]), bits(before)) << "the norm's weight is trained";
      }
    }
  }
}

TEST(NormAlgorithm, SaysItsNameAndThatALoadedModelNeedsIt) {
  const std::vector<std::string> names{"LowPrecisionLayerNorm", "LowPrecisionGroupNorm", "FusedLayerNorm"};
  const Algorithms recipe = all({});
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(recipe[i]->name(), names[i]);
    EXPECT_TRUE(recipe[i]->required_on_load());
    EXPECT_TRUE(recipe[i]->match(Event::init));
    EXPECT_FALSE(recipe[i]->match(Event::after_load));
  }
}

TEST(NormAlgorithm, HandsOptionsAndPrecisionOn) {
  nn::Sequential net = make_net();
  TrainingState state{net, "fp32"};
  algorithms::LowPrecisionLayerNorm algorithm({.surgery = {.parameters = NormParameters::f32}});
  EXPECT_TRUE(algorithm.apply(Event::init, state).empty());
  state.precision = {};
  static_cast<void>(algorithm.apply(Event::init, state));
  EXPECT_EQ(net.at<LPLayerNorm>(1).norm_parameters(), NormParameters::f32);
}

TEST(NormAlgorithm, RefusesAnEventThatDoesNotExist) {
  EXPECT_THROW(all({.apply_at = static_cast<Event>(7)}), ValueError);
}

}  // namespace
}  // namespace mezzo::amp
