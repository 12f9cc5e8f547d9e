// checkpoint_layers: the layers of a type run checkpointed, with the bits and names of the plain model.
#include "mezzo/nn/checkpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/memory/allocator.h"
#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::nn {
namespace {

using test::message_of;

/// A layer that counts its runs.
struct Counted final : Layer {
  explicit Counted(std::int64_t width) : fc(*this, "fc", Linear(width, width)) {}
  Tensor forward(const Tensor& x) override {
    ++runs;
    return tanh(fc(exp(x * 0.1))) * x;
  }
  Child<Linear> fc;
  int runs = 0;
};

std::shared_ptr<Sequential> stack_of(int layers, std::int64_t width) {
  auto net = make<Sequential>();
  for (int i = 0; i < layers; ++i) net->push_back(make<Counted>(width));
  return net;
}
int runs_of(Module& net) {
  int runs = 0;
  for (const auto& [path, module] : net.named_modules()) {
    if (const auto* counted = dynamic_cast<const Counted*>(module)) runs += counted->runs;
  }
  return runs;
}
std::vector<std::vector<double>> gradients(Module& net) {
  std::vector<std::vector<double>> all;
  for (const Tensor& parameter : net.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().to_vector<double>() : std::vector<double>());
  return all;
}
std::vector<std::string> names(const Module& net) {
  std::vector<std::string> all;
  for (const auto& [name, value] : net.state_dict()) all.push_back(name);
  return all;
}

/// Gradients of a step from fresh ones.
template <class N>
std::vector<std::vector<double>> step(N& net, const Tensor& x) {
  net.zero_grad();
  sum(net(x)).backward();
  return gradients(net);
}

TEST(CheckpointLayers, RunTwiceWithTheSameGradientsAndNames) {
  manual_seed(3);
  const auto net = stack_of(3, 8);
  const Tensor x = randn({4, 8});
  const auto expected = step(*net, x);
  const std::vector<Tensor> parameters = net->parameters();
  const std::vector<std::string> before = names(*net);
  EXPECT_EQ(runs_of(*net), 3);

  EXPECT_EQ(checkpoint_layers<Counted>(*net), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(step(*net, x), expected);
  EXPECT_EQ(runs_of(*net), 3 + 6);
  EXPECT_EQ(names(*net), before);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(net->parameters()[i].is_same(parameters[i]));

  EXPECT_EQ(checkpoint_layers<Counted>(*net, false).size(), 3U);
  EXPECT_EQ(step(*net, x), expected);
  EXPECT_EQ(runs_of(*net), 3 + 6 + 3);
  manual_seed(0);
}

TEST(CheckpointLayers, AreChosenByPredicateWithTheRootAmongThem) {
  const auto net = stack_of(3, 8);
  const Module* const second = net->children()[1].get();
  EXPECT_EQ(checkpoint_layers(
                *net, [&](const Module& module) { return &module == second || &module == net.get(); }),
            (std::vector<std::string>{"", "1"}));
  EXPECT_TRUE(is_checkpointed(*net));
  EXPECT_TRUE(is_checkpointed(*second));
  EXPECT_FALSE(is_checkpointed(*net->children()[0]));
  EXPECT_FALSE(is_checkpointed(*net->clone())) << "as hooks, it is not copied";
  const Tensor x = full({4, 8}, 0.3);
  const auto found = step(*net, x);
  EXPECT_EQ(runs_of(*net), 3 + 3 + 1) << "the inner one runs a third time";
  checkpoint_layers<Module>(*net, false);
  EXPECT_EQ(step(*net, x), found);
  EXPECT_TRUE(checkpoint_layers<Conv2d>(*net).empty());
  EXPECT_EQ(
      message_of<ValueError>([&] { return checkpoint_layers(*net, nullptr); }),
      "checkpoint_layers: expected a function that chooses modules, got an empty one; pass a predicate, or "
      "name a type: checkpoint_layers<Block>(model)");
}

TEST(CheckpointLayers, OneCallIsCheckpointedByItself) {
  manual_seed(3);
  const auto net = stack_of(2, 8);
  const Tensor x = randn({4, 8});
  const auto expected = step(*net, x);
  net->zero_grad();
  sum(checkpoint(*net, x)).backward();
  EXPECT_EQ(gradients(*net), expected);
  EXPECT_EQ(runs_of(*net), 2 + 4);
  manual_seed(0);
}

TEST(CheckpointLayers, NeedLessMemory) {
  const auto peak = [](bool with_checkpoint) {
    const auto net = stack_of(12, 64);
    if (with_checkpoint) checkpoint_layers<Counted>(*net);
    const Tensor x = full({256, 64}, 0.3);
    static_cast<void>(step(*net, x));
    const std::int64_t before = memory_stats(Device::cpu()).current;
    reset_peak_memory_stats(Device::cpu());
    static_cast<void>(step(*net, x));
    return memory_stats(Device::cpu()).peak - before;
  };
  // Of a layer it keeps exp's result, tanh's, tanh's once more for mul, and x; of a checkpointed one x.
  EXPECT_LT(2 * peak(true), peak(false));
}

TEST(CheckpointLayers, ServeATransformerWithMasksDropoutAndAutocast) {
  const auto run = [](bool with_checkpoint, bool mixed) {
    manual_seed(3);
    TransformerEncoder encoder(TransformerEncoderLayer(16, 2, {.dim_feedforward = 32, .dropout = 0.2}), 3);
    const auto chosen = checkpoint_layers<TransformerEncoderLayer>(encoder, with_checkpoint);
    EXPECT_EQ(chosen.size(), 3U);
    const Tensor x = randn({5, 4, 16});
    Tensor loss;
    {
      const amp::Autocast autocast(Device::cpu(), DType::bf16, {.enabled = mixed});
      const Tensor y = encoder(x, {.is_causal = true});
      loss = sum(y.to(DType::f32) * y.to(DType::f32));
    }
    static_cast<void>(rand({4}));
    loss.backward();
    auto all = gradients(encoder);
    all.push_back({loss.item()});
    return all;
  };
  for (const bool mixed : {false, true}) EXPECT_EQ(run(false, mixed), run(true, mixed));
  manual_seed(0);
}

TEST(CheckpointLayers, RunTheirHooksOnce) {
  const auto net = stack_of(1, 8);
  Module& layer = *net->children()[0];
  checkpoint_layers<Counted>(*net);
  int before = 0, after = 0, backward = 0;
  layer.register_forward_pre_hook([&](Module&, const Tensor& x) {
    ++before;
    return x * 2;
  });
  const std::size_t id = layer.register_forward_hook([&](Module&, const Tensor&, const Tensor& y) {
    ++after;
    return y * 3;
  });
  layer.register_full_backward_hook([&](Module&, const Tensor& grad_input, const Tensor&) {
    ++backward;
    return grad_input;
  });
  const Tensor x = full({2, 8}, 0.3, {.requires_grad = true});
  const auto found = step(*net, x);
  EXPECT_EQ(std::tuple(before, after, backward), std::tuple(1, 1, 1));
  const Tensor gradient = x.grad();
  x.set_grad({});
  checkpoint_layers<Counted>(*net, false);
  EXPECT_EQ(step(*net, x), found);
  EXPECT_EQ(x.grad().to_vector<double>(), gradient.to_vector<double>());
  layer.remove_hook(id);
  checkpoint_layers<Counted>(*net);
  EXPECT_TRUE(is_checkpointed(layer));
}

/// A module with a number before its tensor, and one that gives two tensors: calls that are not for it.
struct Scaled final : Module {
  Tensor forward(double factor, const Tensor& x) { return exp(x * factor); }
};
struct Pair final : Module {
  std::pair<Tensor, Tensor> forward(const Tensor& x) { return {exp(x), x}; }
};

TEST(CheckpointLayers, LeaveOtherCallsAlone) {
  Scaled scaled;
  Pair pair;
  checkpoint_layers<Module>(scaled);
  checkpoint_layers<Module>(pair);
  const Tensor x = full({2}, 0.5, {.requires_grad = true});
  sum(call(scaled, 2.0, x) + call(pair, x).first).backward();
  const Tensor v = full({2}, 0.5, {.requires_grad = true});
  sum(exp(v * 2.0) + exp(v)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), v.grad().to_vector<double>());
}

TEST(CheckpointLayers, AModelThatEndedOrChangedItsModeIsRefused) {
  const Tensor x = full({2, 8}, 0.3, {.requires_grad = true});
  auto net = stack_of(1, 8);
  checkpoint_layers<Counted>(*net);
  const Tensor first = sum((*net)(x)), second = sum((*net)(x));
  net->eval();
  EXPECT_EQ(
      message_of<StateError>([&] {
        first.backward();
        return 0;
      }),
      "checkpoint_layers: expected a layer in training mode, as in forward, got the other mode; change the "
      "mode after backward");
  checkpoint_layers<Counted>(*net, false);
  net = nullptr;
  EXPECT_EQ(
      message_of<StateError>([&] {
        second.backward();
        return 0;
      }),
      "checkpoint_layers: expected a layer that lives until backward has run, got one that has ended; keep "
      "the model until then");
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace mezzo::nn
