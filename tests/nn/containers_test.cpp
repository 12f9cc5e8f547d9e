// ModuleDict, Residual, Identity, Flatten, Unflatten, and Bilinear, which is a layer of two inputs.
#include <cmath>

#include "mezzo/amp/autocast.h"
#include "mezzo/nn/activation.h"
#include "mezzo/nn/bilinear.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module_dict.h"
#include "mezzo/nn/reshape.h"
#include "mezzo/nn/residual.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

struct Heads final : Module {
  Child<ModuleDict<Layer>> heads{*this, "heads", make<ModuleDict<Layer>>()};
};

TEST(ModuleDict, FindsModulesByNameAndKeepsTheirOrder) {
  Heads model;
  ModuleDict<Layer>& heads = *model.heads;
  heads.insert("one", make<Linear>(3, 2));
  heads.insert("a", make<ReLU>());
  EXPECT_EQ(heads.size(), 2U);
  EXPECT_TRUE(heads.contains("a"));
  EXPECT_FALSE(heads.contains("b"));
  EXPECT_EQ(values(heads.at("a")(tensor({2}, {-1, 1}))), (std::vector<float>{0, 1}));
  EXPECT_EQ(names(model.state_dict()), (Names{"heads.one.weight", "heads.one.bias"}));
  EXPECT_EQ(heads.at("one")->path(), "heads.one");
  Names seen;
  for (const auto& head : heads) seen.push_back(head.name());
  EXPECT_EQ(seen, (Names{"one", "a"}));
  EXPECT_EQ(to_string(heads),
            "ModuleDict(\n  (one): Linear(in_features=3, out_features=2, bias=true)\n  (a): ReLU()\n)");
}

TEST(ModuleDict, ClonesAndExchanges) {
  ModuleDict<Layer> dict({{"x", make<ReLU>()}, {"y", make<Linear>(2, 2)}});
  const auto copy = clone(dict);
  dict.at("x").replace(make<Identity>());
  EXPECT_EQ(copy->at("x")->type_name(), "ReLU");
  EXPECT_EQ(dict.at("x")->type_name(), "Identity");
  EXPECT_EQ(copy->at("y")->num_parameters(), 6);
  copy->insert("z", make<ReLU>());
  EXPECT_EQ(copy->size(), 3U);
  EXPECT_FALSE(dict.contains("z"));
}

TEST(ModuleDict, RefusesNames) {
  Heads model;
  const auto missing = [&] { (void)model.heads->at("c"); };
  EXPECT_TRUE(contains(message_of<IndexError>(missing), "ModuleDict 'heads': expected a name of a module"));
  model.heads->insert("a", make<ReLU>());
  model.heads->insert("b", make<ReLU>());
  EXPECT_TRUE(contains(message_of<IndexError>(missing), "expected one of 'a', 'b', got 'c'"));
  EXPECT_THROW(model.heads->insert("a", make<ReLU>()), ValueError);
  EXPECT_THROW(model.heads->insert("", make<ReLU>()), ValueError);
  EXPECT_THROW(model.heads->insert("a.b", make<ReLU>()), ValueError);
  EXPECT_EQ(model.heads->size(), 2U);
}

TEST(Residual, AddsTheWayAround) {
  const auto inner = make<Linear>(3, 3);
  Residual layer(inner);
  const Tensor x = counting({2, 3});
  EXPECT_EQ(values(layer(x)), values(add(x, linear(x, inner->weight, inner->bias))));
  EXPECT_EQ(names(layer.state_dict()), (Names{"inner.weight", "inner.bias"}));
  EXPECT_EQ(to_string(layer), "Residual(\n  (inner): Linear(in_features=3, out_features=3, bias=true)\n)");
}

TEST(Residual, TakesAShortcutForOtherShapes) {
  const auto inner = make<Conv2d>(2, 4, 3, ConvLayerOptions{.stride = 2, .padding = 1});
  const auto shortcut = make<Conv2d>(2, 4, 1, ConvLayerOptions{.stride = 2, .bias = false});
  Residual layer(inner, shortcut);
  const Tensor x = counting({1, 2, 5, 5}), y = layer(x);
  EXPECT_EQ(values(y), values(add((*shortcut)(x), (*inner)(x))));
  EXPECT_EQ(names(layer.state_dict()), (Names{"inner.weight", "inner.bias", "shortcut.weight"}));
  sum(y).backward();
  for (const Tensor& parameter : layer.parameters()) EXPECT_TRUE(parameter.grad().defined());
  const auto copy = clone(layer);
  EXPECT_EQ(values((*copy)(x)), values(y));
}

TEST(Residual, AddsInTheWiderDtype) {
  Residual layer(make<Linear>(3, 3));
  const amp::Autocast region(Device::cpu(), DType::bf16);
  EXPECT_EQ(layer(counting({2, 3})).dtype(), DType::f32);
  EXPECT_EQ(layer(counting({2, 3}).to(DType::bf16)).dtype(), DType::bf16);
}

TEST(Residual, RefusesTwoShapesAndNothing) {
  Sequential net(make<Residual>(make<Linear>(3, 1)));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)net(zeros({2, 3}));
                       }),
                       "Residual '0': expected one shape for both ways, got [2, 1] through inner, [2, 3] "
                       "around it; give it a shortcut"));
  EXPECT_THROW(Residual(nullptr), ValueError);
}

TEST(Identity, GivesItsInput) {
  const Tensor x = counting({2});
  EXPECT_TRUE(Identity()(x).is_same(x));
  EXPECT_EQ(to_string(Identity()), "Identity()");
}

TEST(Flatten, MergesDims) {
  const Tensor x = counting({2, 3, 4, 5});
  EXPECT_EQ(Flatten()(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(0, 2)(x).shape(), (Shape{24, 5}));
  EXPECT_EQ(values(Flatten(2)(x)), values(x));
  EXPECT_EQ(Flatten()(zeros({0, 3, 2})).shape(), (Shape{0, 6}));
  EXPECT_EQ(to_string(Flatten()), "Flatten(start_dim=1, end_dim=-1)");
  EXPECT_THROW((void)Flatten()(zeros({3})), IndexError);
  EXPECT_THROW((void)Flatten(2, 1)(x), ShapeError);
}

TEST(Unflatten, SplitsADim) {
  const Tensor x = counting({2, 12});
  EXPECT_EQ(Unflatten(1, {3, 4})(x).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(Unflatten(-1, {2, -1, 3})(x).shape(), (Shape{2, 2, 2, 3}));
  EXPECT_EQ(Unflatten(0, {1, 2})(x).shape(), (Shape{1, 2, 12}));
  EXPECT_EQ(values(Unflatten(1, {3, 4})(x)), values(x));
  EXPECT_EQ(Unflatten(1, {3, -1})(zeros({0, 6})).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(Unflatten(0, {3, 0})(zeros({0, 6})).shape(), (Shape{3, 0, 6}));
  EXPECT_EQ(to_string(Unflatten(1, {2, 3})), "Unflatten(dim=1, unflattened_size=[2, 3])");
}

TEST(Unflatten, RefusesSizesThatDoNotMakeUpTheDim) {
  Sequential net(make<Unflatten>(1, Shape{5, 2}));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { (void)net(zeros({2, 12})); }), "Unflatten '0': "));
  EXPECT_THROW((void)Unflatten(1, {5, -1})(zeros({2, 12})), ShapeError);
  EXPECT_THROW((void)Unflatten(2, {3, 4})(zeros({2, 12})), IndexError);
  EXPECT_THROW(Unflatten(1, {}), ValueError);
  EXPECT_THROW(Unflatten(1, {-1, -1}), ValueError);
  EXPECT_THROW(Unflatten(1, {-2}), ValueError);
  EXPECT_THROW((void)Unflatten(1, {2, 6})(Tensor()), Error);
  EXPECT_THROW((void)Unflatten(0, {1, 1})(zeros({1, 1, 1, 1, 1, 1, 1, 1})), ShapeError);
}

TEST(Bilinear, CallsItsFunction) {
  Bilinear layer(2, 3, 4);
  const Tensor a = counting({5, 2}), b = counting({5, 3});
  EXPECT_EQ(values(layer(a, b)), values(bilinear(a, b, layer.weight, layer.bias)));
  sum(layer(a, b)).backward();
  EXPECT_TRUE(layer.weight->grad().defined() && layer.bias->grad().defined());
  EXPECT_EQ(values((*clone(layer))(a, b)), values(layer(a, b)));
  EXPECT_EQ(to_string(layer), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=true)");
  EXPECT_FALSE(Bilinear(2, 3, 4, {.bias = false}).bias.defined());
  layer.to(DType::f64);
  EXPECT_EQ(layer(a.to(DType::f64), b.to(DType::f64)).dtype(), DType::f64);
}

TEST(Bilinear, BeginsUniformWithWeightDrawnFirst) {
  Generator generator(11), oracle(11);
  const Bilinear layer(7, 3, 5, {.generator = &generator});
  const double bound = 1 / std::sqrt(7.0);
  EXPECT_EQ(values(layer.weight), values(uniform(-bound, bound, {5, 7, 3}, {}, oracle)));
  EXPECT_EQ(values(layer.bias), values(uniform(-bound, bound, {5}, {}, oracle)));
}

TEST(Bilinear, RefusesOtherSizes) {
  EXPECT_TRUE(contains(message_of<ValueError>([] { Bilinear(2, 0, 4); }), "at least 1, got [4, 2, 0]"));
  Bilinear layer(2, 3, 4);
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         (void)layer(zeros({5, 2}), zeros({5, 2}));
                       }),
                       "Bilinear: expected a last dim of 3 (in2_features), got [5, 2]"));
  EXPECT_THROW((void)layer(zeros({5, 3}), zeros({5, 3})), ShapeError);
  EXPECT_THROW((void)layer(zeros({4, 2}), zeros({5, 3})), ShapeError);
  EXPECT_THROW((void)layer(zeros({}), zeros({3})), ShapeError);
  EXPECT_THROW((void)layer(Tensor(), zeros({3})), Error);
}

}  // namespace

}  // namespace mezzo::nn
