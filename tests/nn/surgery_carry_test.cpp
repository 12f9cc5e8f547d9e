// Surgery: what replacements take over from the modules that go, parameter pairs, undo, and the report in
// words. Expected values are written down by hand.
#include <sstream>

#include "mezzo/tests/nn/surgery_support.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

// --- what is carried over

TEST(Surgery, CarriesModeDeviceAndDtypeOver) {
  Net net;
  net.to(DType::f64);
  net.head->eval();
  static_cast<void>(surgery::replace<Gain>(net, [](Gain&) { return make<LowGain>(); }));
  const auto& trained = dynamic_cast<LowGain&>(*net.stem->first);
  const auto& frozen = dynamic_cast<LowGain&>(*net.head->second);
  EXPECT_TRUE(trained.is_training());
  EXPECT_FALSE(frozen.is_training());
  EXPECT_EQ(trained.weight->dtype(), DType::f64);
  EXPECT_EQ(trained.weight->to_vector<double>(), (std::vector<double>{100, 101}));
  EXPECT_EQ(trained.weight->device(), net.stem->a->device());
}

TEST(Surgery, KeepsTheDtypeOfWhatItBringsWhereAsked) {
  Sequential net(make<Linear>(2, 2));
  net.to(DType::bf16);
  const auto rule = [](Linear&) { return make<Linear>(2, 2); };
  Report report = surgery::replace<Linear>(net, rule, {.keep_dtype = true});
  EXPECT_EQ(net.parameters()[0].dtype(), DType::f32);
  report.undo();
  EXPECT_EQ(net.parameters()[0].dtype(), DType::bf16);
  surgery::replace<Linear>(net, rule);
  EXPECT_EQ(net.parameters()[0].dtype(), DType::bf16);
}

TEST(Surgery, TheModelDecidesForModulesWithoutTensors) {
  Sequential net(make<Linear>(2, 2), make<ReLU>());
  net.to(DType::bf16);
  static_cast<void>(surgery::replace<ReLU>(net, [](ReLU&) { return make<LowGain>(); }));
  EXPECT_EQ(net.at<LowGain>(1).weight->dtype(), DType::bf16);
}

TEST(Surgery, GoesToTheDeviceOfWhatItReplaces) {
  const Device device = Device::best();
  Sequential net(make<Gain>());
  net.to(device);
  static_cast<void>(surgery::replace<Gain>(net, [](Gain&) { return make<LowGain>(); }));
  EXPECT_EQ(net.at<LowGain>(0).weight->device(), device);
}

TEST(Surgery, LeavesSharedTensorsAndModulesOfTheModelAsTheyAre) {
  const auto gain = make<Gain>();
  Sequential net(gain, make<ReLU>());
  net.eval();
  gain->train();
  gain->to(DType::f64);
  const auto wrapper = make<Wrapper<>>(gain);
  static_cast<void>(surgery::replace<ReLU>(net, [&](ReLU&) { return wrapper; }));
  EXPECT_FALSE(wrapper->is_training());
  EXPECT_TRUE(gain->is_training());
  EXPECT_EQ(gain->weight->dtype(), DType::f64);
}

TEST(Surgery, TheSuccessorOfAFrozenParameterIsFrozen) {
  Sequential net(make<Gain>(), make<Gain>());
  net.at<Gain>(0).weight->requires_grad_(false);
  static_cast<void>(surgery::replace<Gain>(net, [](Gain&) { return make<LowGain>(); }));
  EXPECT_FALSE(net.at<LowGain>(0).weight->requires_grad());
  EXPECT_TRUE(net.at<LowGain>(1).weight->requires_grad());
}

// --- parameter pairs

/// A layer with the names that Linear has, and one more.
struct Extended final : Layer {
  Tensor forward(const Tensor& x) override { return x; }
  Param gain{*this, "gain", counting({1})};
  Param weight{*this, "weight", counting({2, 2})};
};

TEST(Surgery, ListsParametersByName) {
  Sequential net(make<Linear>(2, 2), make<ReLU>());
  const Tensor weight = net.at<Linear>(0).weight, bias = net.at<Linear>(0).bias;
  const Report report = surgery::replace<Linear>(net, [](Linear&) { return make<Extended>(); });
  const auto& pairs = report.parameter_pairs();
  const auto& now = net.at<Extended>(0);
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_TRUE(pairs[0].first.is_same(weight) && pairs[0].second.is_same(now.weight));
  EXPECT_TRUE(pairs[1].first.is_same(bias) && !pairs[1].second.defined());
  EXPECT_TRUE(!pairs[2].first.defined() && pairs[2].second.is_same(now.gain));
}

TEST(Surgery, ListsOnlyParametersThatCameOrWent) {
  const auto tied = make<Linear>(2, 2), kept = make<Linear>(2, 2), wrapped = make<Linear>(2, 2);
  Sequential net(tied, make<Sequential>(kept, wrapped));
  kept->weight.set(tied->weight);
  const auto extended = make<Extended>();
  const Report report = surgery::replace<Linear>(net, [&](Linear& linear) -> Decision {
    if (&linear == tied.get()) return extended;
    if (&linear == wrapped.get()) return make<Wrapper<>>(wrapped);
    return nullptr;
  });
  const auto& pairs = report.parameter_pairs();
  ASSERT_EQ(pairs.size(), 3U);
  EXPECT_TRUE(pairs[0].first.is_same(tied->bias) && !pairs[0].second.defined());
  EXPECT_TRUE(!pairs[1].first.defined() && pairs[1].second.is_same(extended->gain));
  EXPECT_TRUE(!pairs[2].first.defined() && pairs[2].second.is_same(extended->weight))
      << "the old weight is still there, tied to another layer";
}

TEST(Surgery, ListsParametersBelowAndOnce) {
  const auto shared = make<Gain>();
  Sequential net(make<Wrapper<>>(shared), make<Wrapper<>>(shared));
  const Report report =
      surgery::replace<Wrapper<>>(net, [](Wrapper<>&) { return make<Wrapper<1>>(make<LowGain>()); });
  const auto& pairs = report.parameter_pairs();
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_TRUE(pairs[0].first.is_same(shared->weight)) << "paired by the name inner.weight";
  EXPECT_TRUE(pairs[0].second.defined());
  EXPECT_TRUE(!pairs[1].first.defined() && pairs[1].second.defined());
}

// --- undo

TEST(Surgery, UndoRestoresEverythingAndCanBeUndone) {
  Net net;
  const NamedTensors before = net.named_parameters();
  const Names layout = layout_of(net);
  Report report = surgery::replace<Gain>(net, [](Gain&) { return make<LowGain>(); });
  const Names after = layout_of(net);
  EXPECT_NE(after, layout);
  const auto pairs = report.parameter_pairs();
  Report undone = report.undo();
  EXPECT_TRUE(report.empty());
  EXPECT_EQ(layout_of(net), layout);
  const NamedTensors now = net.named_parameters();
  ASSERT_EQ(now.size(), before.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(now[i].first, before[i].first);
    EXPECT_TRUE(now[i].second.is_same(before[i].second));
  }
  ASSERT_EQ(undone.parameter_pairs().size(), pairs.size());
  EXPECT_TRUE(undone.parameter_pairs()[0].first.is_same(pairs[0].second));
  static_cast<void>(undone.undo());
  EXPECT_EQ(layout_of(net), after);
  EXPECT_TRUE(contains(to_string(report.undo()), "there was nothing to undo"));
}

TEST(Surgery, UndoGoesBackwardsOnly) {
  Sequential net = relu_net();
  const Names start = layout_of(net);
  Report first = surgery::replace<ReLU>(net, gelu);
  Report second = surgery::replace<GELU>(net, [](GELU&) { return make<Tanh>(); });
  const Names both = layout_of(net);
  const std::string message = message_of<StateError>([&] { static_cast<void>(first.undo()); });
  EXPECT_TRUE(contains(message, "the GELU that was put at '0', got another module there"));
  EXPECT_EQ(layout_of(net), both);
  EXPECT_FALSE(first.empty());
  static_cast<void>(second.undo());
  static_cast<void>(first.undo());
  EXPECT_EQ(layout_of(net), start);
}

TEST(Surgery, UndoRefusesAPlaceThatHasLeftTheModel) {
  Sequential net(make<Sequential>(make<ReLU>()));
  Report inner = surgery::replace<ReLU>(net, gelu);
  {
    const Report outer = surgery::replace<Sequential>(net, [](Sequential&) { return make<Tanh>(); });
    EXPECT_TRUE(contains(message_of<StateError>([&] { static_cast<void>(inner.undo()); }),
                         "a model without that place"));
  }
  // The block is gone for good, and its slots with it.
  EXPECT_THROW(static_cast<void>(inner.undo()), StateError);
}

TEST(Surgery, UndoAndRedoOfReplacementsInsideOfReplacements) {
  Sequential net(make<Sequential>(make<ReLU>(), make<Tanh>()));
  const Names start = layout_of(net);
  Report report = surgery::replace(
      net, {surgery::of_type<Sequential>([](Sequential& old) { return make<Wrapper<>>(old[0].get()); }),
            surgery::of_type<ReLU>(gelu)});
  const Names after = layout_of(net);
  Report undone = report.undo();
  EXPECT_EQ(layout_of(net), start);
  static_cast<void>(undone.undo());
  EXPECT_EQ(layout_of(net), after);
}

TEST(Surgery, UndoFollowsChangesOfModeAndDtype) {
  const auto gain = make<Gain>();
  const auto mixed = make<Wrapper<>>(make<Sequential>(gain, make<Linear>(2, 2)));
  gain->to(DType::f64);
  gain->eval();
  Sequential net(make<Linear>(2, 2), mixed);
  const auto replace = [&] {
    return surgery::replace<Wrapper<>>(net, [](Wrapper<>&) { return make<Wrapper<1>>(make<LowGain>()); });
  };
  Report report = replace();
  static_cast<void>(report.undo());
  EXPECT_FALSE(gain->is_training()) << "nothing has changed meanwhile";
  EXPECT_EQ(gain->weight->dtype(), DType::f64);
  report = replace();
  net.to(DType::f16);
  net.eval();
  static_cast<void>(report.undo());
  EXPECT_FALSE(mixed->is_training());
  EXPECT_EQ(gain->weight->dtype(), DType::f16);
  EXPECT_EQ(net.parameters().back().dtype(), DType::f16);
}

// --- in words

TEST(Surgery, PrintsATable) {
  const auto shared = make<ReLU>();
  Sequential net(shared, make<Softer>(), make<Sequential>(shared));
  Report report = surgery::replace(
      net, {surgery::of_type<ReLU>(gelu), surgery::of_type<Soft>([](Soft&) { return make<ReLU>(); })});
  report.add_note("a remark");
  std::ostringstream text;
  text << report;
  EXPECT_EQ(text.str(),
            "replaced 1 module\n"
            "  0, 2.0  ReLU  ->  GELU\n"
            "kept 1 module\n"
            "  1  Softer  is of a class derived from Soft, and what that changes would be lost "
            "(Subclasses::replace does it all the same)\n"
            "note: a remark\n");
}

TEST(Surgery, CountsModulesOnceWithDerivedOnes) {
  const auto shared = make<Soft>();
  Sequential net(shared, make<Sequential>(shared, make<Softer>()));
  EXPECT_EQ(surgery::count<Soft>(net), 2U);
  EXPECT_EQ(surgery::count<Softer>(net), 1U);
  EXPECT_EQ(surgery::count<Sequential>(net), 1U) << "the root does not count";
  EXPECT_EQ(surgery::count<Module>(net), 3U);
}

}  // namespace

}  // namespace mezzo::nn
