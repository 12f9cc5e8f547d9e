// LoRA: what adapters compute, by the formula in f64; what is trained, saved and merged; misuse.
#include "mezzo/nn/lora.h"

#include <gtest/gtest.h>

#include "mezzo/mezzo.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo::nn {
namespace {

using test::message_of;
using Names = std::vector<std::string>;

/// An embedding, a convolution and products, as blocks of a model have them.
struct Block final : Layer {
  Child<Linear> qkv{*this, "qkv", Linear(6, 6)};
  Child<Linear> proj{*this, "proj", Linear(6, 6)};
  Tensor forward(const Tensor& x) override { return proj(tanh(qkv(x))); }
};
struct Net final : Layer {
  Child<Embedding> embed{*this, "embed", Embedding(10, 6)};
  Child<Block> attn{*this, "attn", Block()};
  Child<LayerNorm> norm{*this, "norm", LayerNorm(6)};
  Child<Linear> head{*this, "head", Linear(6, 3)};
  Tensor forward(const Tensor& x) override { return head(norm(attn(embed(x)))); }
};

Names names_of(const NamedTensors& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// Fills all adapters with normal values.
void draw(Module& model) {
  const NoGrad no_grad;
  for (const auto& [name, tensor] : lora_state_dict(model)) init::normal_(tensor, 0, 0.5);
}

Tensor some_tokens() { return randint(0, 10, {4, 5}); }

TEST(Lora, ChangesNothingAtFirstAndTrainsItsAdaptersAlone) {
  manual_seed(1);
  Net net;
  const Tensor tokens = some_tokens(), before = net(tokens);
  const surgery::Report report = apply_lora(net, {.rank = 2, .alpha = 4, .targets = {"attn.*", "embed"}});
  ASSERT_EQ(report.replaced().size(), 3U);
  EXPECT_TRUE(equal(net(tokens), before));
  EXPECT_EQ(names_of(lora_state_dict(net)),
            (Names{"base_model.model.embed.lora_embedding_A", "base_model.model.embed.lora_embedding_B",
                   "base_model.model.attn.qkv.lora_A.weight", "base_model.model.attn.qkv.lora_B.weight",
                   "base_model.model.attn.proj.lora_A.weight", "base_model.model.attn.proj.lora_B.weight"}));
  for (const auto& [name, parameter] : net.named_parameters())
    EXPECT_EQ(parameter.requires_grad(), name.find("lora_") != std::string::npos) << name;

  const NamedTensors start = clone(net)->state_dict();
  optim::AdamW optimizer(net, {.lr = 0.05});
  const Tensor target = randint(0, 3, {20});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(tokens).flatten(0, 1), target);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, 0.8 * first);
  const NamedTensors end = net.state_dict();
  for (std::size_t i = 0; i < start.size(); ++i)
    EXPECT_EQ(equal(start[i].second, end[i].second), start[i].first.find("lora_") == std::string::npos)
        << start[i].first;
}

/// A model of one layer that has f64 adapters of normal values.
template <class L>
Sequential adapted(const L& layer, LoraOptions options = {.rank = 2, .alpha = 6}) {
  Sequential net(make<L>(layer, ShareTensors{}));
  net.to(DType::f64);
  options.targets = {"0"};
  options.dtype = DType::f64;
  apply_lora(net, options);
  draw(net);
  return net;
}

TEST(Lora, AddsTheProductOfItsAdapters) {
  manual_seed(2);
  const Tensor x = randn({3, 4}, {.dtype = DType::f64});
  Sequential net(Linear(4, 5, {.dtype = DType::f64}));
  apply_lora(net, {.rank = 2, .alpha = 6, .targets = {"0"}, .dtype = DType::f64});
  auto& layer = dynamic_cast<Lora<Linear>&>(*net[0].module());
  draw(net);
  const Tensor a = layer.lora_A->weight, b = layer.lora_B->weight;
  const Tensor expected = linear(x, layer.weight + 3 * matmul(b, a), layer.bias);
  const Tensor y = net(x);
  EXPECT_TRUE(allclose(y, expected, 1e-14, 1e-14));
  // First and second gradients are those of the formula.
  const Tensor weight = randn(y.shape(), {.dtype = DType::f64});
  const auto gradients = [&](const Tensor& result) {
    Tensors first = grad({sum(pow(result, 3) * weight)}, {a, b}, {.create_graph = true});
    const Tensors second = grad({sum(square(first[0])) + sum(square(first[1]))}, {a, b});
    for (const Tensor& gradient : second) first.push_back(gradient);
    return first;
  };
  const Tensors got = gradients(y), wanted = gradients(expected);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(allclose(got[i], wanted[i], 1e-11, 1e-11)) << i;
}

TEST(Lora, ScalesByRankOrItsRoot) {
  const auto scaling = [](const LoraOptions& options) {
    return Lora<Linear>(Linear(4, 5), options).scaling();
  };
  EXPECT_DOUBLE_EQ(scaling({.rank = 4, .alpha = 6}), 1.5);
  EXPECT_DOUBLE_EQ(scaling({.rank = 4, .alpha = 6, .rank_stabilized = true}), 3);
}

/// Whether a merged layer computes what adapters beside the layer do, and gets its weight back to the bit.
void expect_merges(Sequential net, const Tensor& x) {
  const Tensor y = net(x), weight = net.parameters().front();
  const Tensor values = clone(weight.detach());
  merge_lora(net);
  EXPECT_TRUE(allclose(net(x), y, 1e-12, 1e-12));
  EXPECT_FALSE(equal(net.parameters().front(), values));
  EXPECT_TRUE(equal(weight, values));  // which may be another layer's, too
  unmerge_lora(net);
  EXPECT_TRUE(net.parameters().front().is_same(weight));
  EXPECT_TRUE(equal(net(x), y));
  merge_lora(net);
  const surgery::Report report = remove_lora(net);
  ASSERT_EQ(report.replaced().size(), 1U);
  EXPECT_TRUE(allclose(net(x), y, 1e-12, 1e-12));
  for (const auto& [name, tensor] : net.state_dict()) EXPECT_EQ(name.find("lora"), std::string::npos);
}

TEST(Lora, OfEachLayerCanBeMerged) {
  manual_seed(3);
  const TensorOptions f64{.dtype = DType::f64};
  expect_merges(adapted(Linear(4, 5)), randn({3, 4}, f64));
  expect_merges(adapted(Linear(4, 5, {.bias = false})), randn({4}, f64));
  expect_merges(adapted(Embedding(7, 4)), randint(0, 7, {3, 2}));
  expect_merges(adapted(Embedding(7, 4, {.padding_idx = 2})), randint(0, 7, {12}));
  const Tensor image = randn({2, 3, 9, 8}, f64);
  expect_merges(adapted(Conv2d(3, 4, 3)), image);
  expect_merges(adapted(Conv2d(3, 4, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}})),
                image);
  expect_merges(adapted(Conv2d(3, 4, 3, {.padding = "same", .padding_mode = PadMode::reflect})), image[0]);
}

TEST(Lora, OfAConvolutionOfGroupsReadsAllOfThemAndCannotBeMerged) {
  Sequential net = adapted(Conv2d(4, 6, 3, {.groups = 2}));
  const auto& layer = dynamic_cast<Lora<Conv2d>&>(*net[0].module());
  const Tensor x = randn({1, 4, 5, 5}, {.dtype = DType::f64});
  const Tensor expected =
      conv2d(x, layer.weight, layer.bias, {.groups = 2}) +
      3 * conv2d(conv2d(x, layer.lora_A->weight), layer.lora_B->weight, {}, {.groups = 2});
  EXPECT_TRUE(allclose(net(x), expected, 1e-13, 1e-13));
  const std::string said = message_of<StateError>([&] { merge_lora(net); });
  EXPECT_NE(said.find("layers of one group"), std::string::npos) << said;
  EXPECT_THROW((Lora<Conv2d>(Conv2d(4, 6, 3, {.groups = 2}), {.rank = 3})), ValueError);
}

TEST(Lora, MergingLeavesATiedWeightOfAnotherLayerAlone) {
  Sequential net(Linear(4, 4), Linear(4, 4));
  auto& second = dynamic_cast<Linear&>(*net[1].module());
  second.weight.set(dynamic_cast<Linear&>(*net[0].module()).weight);
  apply_lora(net, {.rank = 2, .targets = {"0"}});
  draw(net);
  const Tensor x = randn({2, 4}), y = net(x);
  merge_lora(net);
  EXPECT_TRUE(allclose(net(x), y, 1e-5, 1e-5));
  EXPECT_FALSE(dynamic_cast<Linear&>(*net[0].module()).weight.is_same(second.weight));
  unmerge_lora(net);
  EXPECT_TRUE(dynamic_cast<Linear&>(*net[0].module()).weight.is_same(second.weight));
}

TEST(Lora, StandsInF32BesideA16BitBase) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Net net;
    net.to(dtype);
    apply_lora(net, {.rank = 2, .targets = {"qkv", "embed"}});
    draw(net);
    for (const auto& [name, tensor] : lora_state_dict(net)) EXPECT_EQ(tensor.dtype(), DType::f32) << name;
    const Tensor y = net(some_tokens());
    EXPECT_EQ(y.dtype(), dtype);
    y.to(DType::f32).sum().backward();
    for (const auto& [name, parameter] : net.named_parameters()) {
      if (name.find("lora_") != std::string::npos) {
        EXPECT_EQ(parameter.grad().dtype(), DType::f32) << name;
      }
    }
    const Tensor base = net.embed->weight;
    merge_lora(net);
    EXPECT_EQ(net.embed->weight.dtype(), dtype);
    const auto& layer = dynamic_cast<Lora<Embedding>&>(*net.embed);
    EXPECT_TRUE(equal(net.embed->weight, (base.to(DType::f32) + layer.delta_weight()).to(dtype)));
  }
}

TEST(Lora, RunsInARegionOfAutocast) {
  manual_seed(4);
  Net net;
  apply_lora(net, {.rank = 2, .targets = {"attn.*"}});
  draw(net);
  const Tensor tokens = some_tokens(), exact = net(tokens);
  const amp::Autocast autocast(DType::bf16);
  const Tensor y = net(tokens);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_TRUE(allclose(y.to(DType::f32), exact, 0.1, 0.1));  // 2^-8 a layer, of sums whose terms cancel
  EXPECT_FALSE(equal(y.to(DType::f32), exact));
}

TEST(Lora, DropsPartOfTheAdaptersInputInTraining) {
  Generator drawn(5), again(5);
  Sequential net =
      adapted(Linear(400, 1, {.bias = false}), {.rank = 2, .alpha = 2, .dropout = 0.5, .generator = &drawn});
  auto& layer = dynamic_cast<Lora<Linear>&>(*net[0].module());
  const Tensor x = randn({3, 400}, {.dtype = DType::f64});
  drawn.manual_seed(5);
  const Tensor expected = linear(x, layer.weight) + layer.lora_B(layer.lora_A(dropout(x, 0.5, true, again)));
  EXPECT_TRUE(allclose(net(x), expected, 1e-13, 1e-13));
  net.eval();
  EXPECT_TRUE(allclose(net(x), linear(x, layer.weight + layer.delta_weight()), 1e-11, 1e-11));
}

TEST(Lora, KeepsNoInputsOfAFrozenBase) {
  // Of what a forward leaves for the backward: the input of the layers, which A's gradient needs, and no
  // more.
  Sequential net(Linear(64, 64), Linear(64, 64), Linear(64, 64));
  apply_lora(net, {.rank = 1, .targets = {"2"}});
  const Tensor x = randn({1000, 64});
  const auto in_use = [] { return memory_stats(Device::cpu()).current; };
  const auto before = in_use();
  const Tensor y = net(x);
  const auto kept = in_use() - before;
  const auto row = std::int64_t{1000 * sizeof(float)};
  EXPECT_LT(kept, (64 + 64 + 1 + 8) * row);  // the result, the third layer's input, and A's result
}

TEST(Lora, IsClonedSavedAndUndone) {
  manual_seed(6);
  Net net;
  const Names plain = names_of(net.state_dict());
  surgery::Report report = apply_lora(net, {.rank = 2, .targets = {"attn\\..*"}});
  draw(net);
  const Tensor tokens = some_tokens(), y = net(tokens);
  const auto copy = clone(net);
  EXPECT_TRUE(equal((*copy)(tokens), y));
  merge_lora(*copy);
  EXPECT_TRUE(equal(net(tokens), y));
  EXPECT_TRUE(allclose((*clone(*copy))(tokens), y, 1e-5, 1e-5));
  EXPECT_NE(to_string(*copy).find(
                "LoraLinear(\n      in_features=6, out_features=6, bias=true, rank=2, alpha=8.0, merged"),
            std::string::npos)
      << to_string(*copy);
  report.undo();
  EXPECT_EQ(names_of(net.state_dict()), plain);
}

TEST(Lora, IsLoadedUnderPeftsNamesOrThoseOfTheModel) {
  manual_seed(7);
  Net trained, other;
  other.load_state_dict(trained.state_dict());
  const LoraOptions options{.rank = 3, .targets = {"qkv", "embed", "head"}};
  apply_lora(trained, options);
  apply_lora(other, options);
  draw(trained);
  const NamedTensors state = lora_state_dict(trained);
  load_lora(other, state);
  const Tensor tokens = some_tokens();
  EXPECT_TRUE(equal(other(tokens), trained(tokens)));
  draw(other);
  NamedTensors short_names;
  for (const auto& [name, tensor] : state) short_names.emplace_back(name.substr(17), tensor.to(DType::f64));
  load_lora(other, short_names);
  EXPECT_TRUE(equal(other(tokens), trained(tokens)));
}

/// The message of a call of apply_lora on a Net with these targets.
std::string refused(const LoraOptions& options) {
  Net net;
  const Names before = names_of(net.state_dict());
  const std::string said = message_of<ValueError>([&] { return apply_lora(net, options); });
  EXPECT_EQ(names_of(net.state_dict()), before);
  EXPECT_TRUE(net.head->weight.requires_grad());
  return said;
}

TEST(Lora, RefusesTargetsAndOptionsThatMakeNoSense) {
  EXPECT_EQ(
      refused({.targets = {"qkv", "mlp.fc1"}}),
      "apply_lora: expected targets that name a Linear, Embedding or Conv2d, got 'mlp.fc1', which names none "
      "of Net; print the model to see its paths");
  EXPECT_NE(refused({.targets = {"norm"}}).find("'norm'"), std::string::npos);
  EXPECT_NE(refused({}).find("expected targets, got none"), std::string::npos);
  EXPECT_NE(refused({.targets = {"(qkv"}}).find("regular expression"), std::string::npos);
  EXPECT_NE(refused({.rank = 0, .targets = {"qkv"}}).find("rank"), std::string::npos);
  EXPECT_NE(refused({.alpha = INFINITY, .targets = {"qkv"}}).find("alpha"), std::string::npos);
  EXPECT_NE(refused({.targets = {"qkv"}, .dropout = 1}).find("dropout"), std::string::npos);
  EXPECT_NE(refused({.targets = {"qkv"}, .dtype = DType::i64}).find("adapters of f32"), std::string::npos);
  EXPECT_THROW((Lora<Embedding>(Embedding(3, 2, {.max_norm = 1}), {})), ValueError);
}

TEST(Lora, RefusesASecondMergeAndStatesThatDoNotFit) {
  Net net;
  EXPECT_THROW(merge_lora(net), StateError);
  EXPECT_THROW(static_cast<void>(lora_state_dict(net)), StateError);
  const LoraOptions options{.rank = 2, .targets = {"qkv", "proj"}};
  apply_lora(net, options);
  EXPECT_EQ(apply_lora(net, options).kept().size(), 2U);  // they have adapters
  EXPECT_THROW(unmerge_lora(net), StateError);
  Net larger;
  apply_lora(larger, {.rank = 4, .targets = {"qkv", "proj"}});
  EXPECT_EQ(
      message_of<ValueError>([&] {
        load_lora(net, lora_state_dict(larger));
        return 0;
      }),
      "load_lora: expected 'base_model.model.attn.qkv.lora_A.weight' of shape [2, 6], got [4, 6]; apply_lora "
      "with the rank that was trained");
  NamedTensors state = lora_state_dict(net);
  state.pop_back();
  EXPECT_THROW(load_lora(net, state), ValueError);
  state.emplace_back("fc.lora_A.weight", zeros({2, 6}));
  EXPECT_THROW(load_lora(net, state), ValueError);
  merge_lora(net);
  EXPECT_EQ(message_of<StateError>([&] {
              merge_lora(net);
              return 0;
            }),
            "merge_lora: expected adapters that are not merged, got those of LoraLinear 'attn.qkv'; "
            "unmerge_lora first");
  EXPECT_THROW(load_lora(net, lora_state_dict(net)), StateError);
}

}  // namespace
}  // namespace mezzo::nn
