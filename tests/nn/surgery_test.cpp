// Surgery: which modules are exchanged, in which places and order, and that one that fails leaves the model
// as it was. Expected values are written down by hand.
#include <stdexcept>

#include "mezzo/ops/pointwise.h"
#include "mezzo/tests/nn/surgery_support.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

TEST(Surgery, ReplacesByTypeAtAnyDepth) {
  Sequential net = relu_net();
  const Report report = surgery::replace<ReLU>(net, gelu);
  EXPECT_EQ(layout_of(net), (Names{"0:GELU", "1:Sequential", "1.0:GELU", "1.1:Tanh", "2:Linear"}));
  EXPECT_EQ(paths_of(report), (Names{"0", "1.0"}));
  EXPECT_EQ(report.replaced()[1].before->type_name(), "ReLU");
  EXPECT_EQ(report.replaced()[1].after, (*std::dynamic_pointer_cast<Sequential>(net[1].get()))[0].get());
  EXPECT_FALSE(report.empty());
  EXPECT_TRUE(report.parameter_pairs().empty());
}

TEST(Surgery, ASecondRunChangesNothingAndSaysSo) {
  Sequential net = relu_net();
  static_cast<void>(surgery::replace<ReLU>(net, gelu));
  const Names before = layout_of(net);
  const Report report = surgery::replace<ReLU>(net, gelu);
  EXPECT_TRUE(report.empty());
  EXPECT_EQ(layout_of(net), before);
  EXPECT_EQ(to_string(report), "nothing was replaced\nnote: found nothing to replace: no ReLU\n");
}

TEST(Surgery, ForwardSeesTheReplacement) {
  Sequential net(make<ReLU>());
  static_cast<void>(surgery::replace<ReLU>(net, [](ReLU&) { return make<Tanh>(); }));
  EXPECT_EQ(values(net(tensor({2}, {-1, 0})))[0], values(mezzo::tanh(tensor({1}, {-1})))[0]);
}

TEST(Surgery, ASharedModuleIsReplacedOnceInAllItsPlaces) {
  const auto shared = make<ReLU>();
  const auto block = make<Sequential>(shared, make<Tanh>());
  Sequential net(block, shared, block);
  int calls = 0;
  const Report report = surgery::replace<ReLU>(net, [&](ReLU&) {
    ++calls;
    return make<GELU>();
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(paths_of(report), (Names{"0.0", "1"})) << "the block has one slot, however often it is used";
  EXPECT_EQ(net[1].module(), (*block)[0].module());
  EXPECT_EQ(net[0].module(), net[2].module());
  EXPECT_EQ(net[1]->path(), "0.0");
}

TEST(Surgery, OneReplacementMayServeSeveralModules) {
  Sequential net(make<ReLU>(), make<ReLU>());
  net.eval();
  const auto one = make<GELU>();
  const Report report = surgery::replace<ReLU>(net, [&](ReLU&) { return one; });
  EXPECT_EQ(report.replaced().size(), 2U);
  EXPECT_EQ(net[0].module(), net[1].module());
  EXPECT_FALSE(one->is_training());
}

TEST(Surgery, TellsRulesPathAndIndex) {
  Sequential net = relu_net();
  std::vector<std::pair<std::string, std::size_t>> seen;
  const Report report = surgery::replace<ReLU>(net, [&](ReLU&, const Match& match) -> std::shared_ptr<ReLU> {
    seen.emplace_back(match.path, match.index);
    return nullptr;
  });
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, std::size_t>>{{"0", 0}, {"1.0", 1}}));
  EXPECT_TRUE(report.empty());
  ASSERT_EQ(report.kept().size(), 2U);
  EXPECT_EQ(report.kept()[1].path, "1.0");
  EXPECT_EQ(report.kept()[1].why, "its rule gives no replacement");
}

TEST(Surgery, TheFirstRuleThatMatchesCounts) {
  Sequential net = relu_net();
  const Rule tanh = surgery::of_type<ReLU>([](ReLU&) { return make<Tanh>(); });
  static_cast<void>(surgery::replace(net, {tanh, surgery::of_type<ReLU>(gelu)}));
  EXPECT_EQ(surgery::count<Tanh>(net), 3U);
  EXPECT_EQ(surgery::count<GELU>(net), 0U);
}

TEST(Surgery, ReplacesByPredicateAndKeepsForAReason) {
  Sequential net(make<Linear>(2, 2), make<Linear>(2, 3));
  const Report report = surgery::replace_if(
      net, [](const Module& module) { return dynamic_cast<const Linear*>(&module) != nullptr; },
      [](Module& module, const Match&) -> Decision {
        if (dynamic_cast<Linear&>(module).out_features() == 3) return Decision::keep("is the head");
        return make<Linear>(2, 2);
      });
  EXPECT_EQ(paths_of(report), (Names{"0"}));
  ASSERT_EQ(report.kept().size(), 1U);
  EXPECT_EQ(report.kept()[0].type, "Linear");
  EXPECT_EQ(report.kept()[0].why, "is the head");
}

TEST(Surgery, ModulesOfDerivedClassesAreKeptUnlessAskedFor) {
  const auto relu = [](Soft&) { return make<ReLU>(); };
  Sequential net(make<Softer>(), make<Soft>());
  const Report kept = surgery::replace<Soft>(net, relu);
  EXPECT_EQ(paths_of(kept), (Names{"1"}));
  ASSERT_EQ(kept.kept().size(), 1U);
  EXPECT_TRUE(contains(kept.kept()[0].why, "derived from Soft"));
  const Report all = surgery::replace<Soft>(net, relu, {}, Subclasses::replace);
  EXPECT_EQ(paths_of(all), (Names{"0"}));
}

TEST(Surgery, TheRootStaysAndIsReported) {
  Sequential net(make<Sequential>(make<ReLU>()));
  const Report report = surgery::replace<Sequential>(net, [](Sequential&) { return make<Tanh>(); });
  EXPECT_EQ(layout_of(net), (Names{"0:Tanh"}));
  ASSERT_EQ(report.kept().size(), 1U);
  EXPECT_EQ(report.kept()[0].path, "");
  EXPECT_TRUE(contains(to_string(report), "(root)  Sequential  is the root"));
}

TEST(Surgery, EmptySlotsAreLeftAlone) {
  Sequential net(make<ReLU>(), make<ReLU>());
  net[0].replace(nullptr);
  EXPECT_EQ(paths_of(surgery::replace<ReLU>(net, gelu)), (Names{"1"}));
  EXPECT_EQ(net[0].module(), nullptr);
}

TEST(Surgery, WhatGoesWithItsParentIsNotVisited) {
  Sequential net(make<Sequential>(make<ReLU>()), make<ReLU>());
  const auto inner = net[0].get();
  const Report report = surgery::replace(
      net,
      {surgery::of_type<Sequential>([](Sequential&) { return make<Tanh>(); }), surgery::of_type<ReLU>(gelu)});
  EXPECT_EQ(paths_of(report), (Names{"0", "1"}));
  EXPECT_EQ(layout_of(*inner), (Names{"0:ReLU"})) << "it left the model as it was";
}

TEST(Surgery, ModulesOfTheModelAreFoundInsideOfReplacements) {
  Sequential net(make<Sequential>(make<ReLU>(), make<Tanh>()));
  const Report report = surgery::replace(
      net, {surgery::of_type<Sequential>([](Sequential& old) { return make<Wrapper<>>(old[0].get()); }),
            surgery::of_type<ReLU>(gelu)});
  EXPECT_EQ(layout_of(net), (Names{"0:Wrapper0", "0.inner:GELU"}));
  EXPECT_EQ(paths_of(report), (Names{"0", "0.inner"}));
}

TEST(Surgery, AReplacementMayHoldWhatItReplaces) {
  const auto first = make<ReLU>();
  Sequential net(first, make<Sequential>(first, make<ReLU>()));
  const auto rule = [](ReLU& /*old*/, const Match& match) {
    return make<Wrapper<>>(std::dynamic_pointer_cast<Layer>(match.module));
  };
  const Names before = layout_of(net);
  Report report = surgery::replace<ReLU>(net, rule);
  EXPECT_EQ(layout_of(net),
            (Names{"0:Wrapper0", "0.inner:ReLU", "1:Sequential", "1.1:Wrapper0", "1.1.inner:ReLU"}));
  EXPECT_EQ(paths_of(report), (Names{"0", "1.0", "1.1"}));
  EXPECT_EQ(net[0].module(), (*std::dynamic_pointer_cast<Sequential>(net[1].get()))[0].module());
  EXPECT_EQ(first->path(), "0.inner");
  EXPECT_TRUE(report.undo().replaced().size() == 2U);
  EXPECT_EQ(layout_of(net), before);
  EXPECT_EQ(first->path(), "0");
}

TEST(Surgery, WrapsOnce) {
  const auto relu = make<ReLU>();
  Sequential net(relu);
  const auto twice = [&](ReLU&) { return make<Wrapper<1>>(make<Wrapper<>>(relu)); };
  EXPECT_FALSE(surgery::replace<ReLU>(net, twice).empty());
  const Names once = layout_of(net);
  EXPECT_EQ(once, (Names{"0:Wrapper1", "0.inner:Wrapper0", "0.inner.inner:ReLU"}));
  const Report again = surgery::replace<ReLU>(net, twice);
  EXPECT_TRUE(again.empty());
  ASSERT_EQ(again.kept().size(), 1U);
  EXPECT_EQ(again.kept()[0].why, "sits in a Wrapper1 already");
  EXPECT_EQ(layout_of(net), once);
  // In other surroundings it is wrapped.
  EXPECT_FALSE(surgery::replace<ReLU>(net, [&](ReLU&) { return make<Wrapper<1>>(relu); }).empty());
}

TEST(Surgery, RecursionLooksIntoReplacementsAndEnds) {
  const auto rules = [] {
    return std::vector<Rule>{
        surgery::of_type<ReLU>([](ReLU&) { return make<Sequential>(make<ReLU>(), make<Tanh>()); }),
        surgery::of_type<Tanh>([](Tanh&) { return make<Sequential>(make<ReLU>(), make<GELU>()); })};
  };
  Sequential flat(make<ReLU>());
  static_cast<void>(surgery::replace(flat, rules()));
  EXPECT_EQ(layout_of(flat), (Names{"0:Sequential", "0.0:ReLU", "0.1:Tanh"}));
  Sequential net(make<ReLU>());
  const Report report = surgery::replace(net, rules(), {.recurse = true});
  // Neither rule works on what it brought: the ReLU within Tanh's replacement comes from both.
  EXPECT_EQ(layout_of(net),
            (Names{"0:Sequential", "0.0:ReLU", "0.1:Sequential", "0.1.0:ReLU", "0.1.1:GELU"}));
  EXPECT_EQ(paths_of(report), (Names{"0", "0.1"}));
}

TEST(Surgery, RecursionAppliesFurtherRulesToAReplacementItself) {
  Sequential net(make<ReLU>());
  Report report = surgery::replace(net,
                                   {surgery::of_type<ReLU>([](ReLU&) { return make<Tanh>(); }),
                                    surgery::of_type<Tanh>([](Tanh&) { return make<ReLU>(); })},
                                   {.recurse = true});
  EXPECT_EQ(layout_of(net), (Names{"0:ReLU"})) << "each rule had its turn";
  ASSERT_EQ(report.replaced().size(), 1U);
  EXPECT_EQ(report.replaced()[0].after, net[0].module());
  EXPECT_NE(report.replaced()[0].before, net[0].module());
}

// --- what fails changes nothing

/// A slot that only takes Scaling layers.
struct Picky final : Layer {
  Tensor forward(const Tensor& x) override { return scaling(x); }
  Child<Scaling> scaling{*this, "scaling", make<Gain>()};
};

TEST(Surgery, ARefusedReplacementNamesPathAndTypesAndChangesNothing) {
  Sequential net(make<Gain>(), make<Sequential>(make<Picky>()));
  net.eval();
  const Names before = layout_of(net);
  const std::string message = message_of<ValueError>(
      [&] { static_cast<void>(surgery::replace<Gain>(net, [](Gain&) { return make<ReLU>(); })); });
  EXPECT_TRUE(contains(message, "a module of type Scaling for '1.0.scaling' (a member of Picky), got ReLU"));
  EXPECT_EQ(layout_of(net), before);
  for (const auto& [path, module] : net.named_modules()) EXPECT_FALSE(module->is_training()) << path;
}

TEST(Surgery, ARuleThatThrowsChangesNothing) {
  Sequential net = relu_net();
  net.to(DType::bf16);
  const Names before = layout_of(net);
  EXPECT_THROW(static_cast<void>(surgery::replace<ReLU>(net,
                                                        [](ReLU&, const Match& match) {
                                                          if (match.index == 1)
                                                            throw std::runtime_error("no");
                                                          return make<GELU>();
                                                        })),
               std::runtime_error);
  EXPECT_EQ(layout_of(net), before);
  EXPECT_EQ(net[0]->path(), "0");
}

TEST(Surgery, AModelMustNotContainItself) {
  const auto inner = make<Sequential>(make<ReLU>());
  Sequential net(inner);
  const Names before = layout_of(net);
  const std::string message = message_of<ValueError>(
      [&] { static_cast<void>(surgery::replace<ReLU>(net, [&](ReLU&) { return make<Wrapper<>>(inner); })); });
  EXPECT_TRUE(contains(message, "a replacement for '0.0.inner' that does not contain its place"));
  EXPECT_THROW(static_cast<void>(surgery::replace<ReLU>(net, [&](ReLU&) { return inner; })), ValueError);
  EXPECT_EQ(layout_of(net), before);
}

TEST(Surgery, ModulesThatChangePlacesDoNotContainEachOther) {
  const auto relu = make<ReLU>();
  const auto tanh = make<Tanh>();
  Sequential net(relu, tanh);
  static_cast<void>(
      surgery::replace(net, {surgery::of_type<ReLU>([&](ReLU&) { return make<Wrapper<>>(tanh); }),
                             surgery::of_type<Tanh>([&](Tanh&) { return make<Wrapper<1>>(relu); })}));
  EXPECT_EQ(layout_of(net), (Names{"0:Wrapper0", "0.inner:Wrapper1", "0.inner.inner:ReLU"}));
  EXPECT_EQ(net[1].module(), std::dynamic_pointer_cast<Wrapper<>>(net[0].module())->inner.module());
}

TEST(Surgery, RefusesRulesWithoutFunctions) {
  Sequential net = relu_net();
  EXPECT_THROW(static_cast<void>(surgery::replace(net, {Rule{"ReLU", nullptr, nullptr}})), ValueError);
  const Report none = surgery::replace(net, std::vector<Rule>{});
  EXPECT_TRUE(contains(to_string(none), "no rules were given"));
}

}  // namespace

}  // namespace mezzo::nn
