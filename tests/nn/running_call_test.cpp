// What a call of a module knows while it runs: the place of an error, and that the module is part of a model.
#include <vector>

#include "mezzo/nn/conv.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/factory.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/tests/nn/models.h"
#include "mezzo/tests/support/caught_warnings.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

// --- errors

/// x + numbers of another size.
struct AddsWrong final : Layer {
  Tensor forward(const Tensor& x) override { return add(x, ones({3})); }
  [[nodiscard]] std::string type_name() const override { return "AddsWrong"; }
};

struct Net final : Layer {
  Child<Sequential> blocks{*this, "blocks", Sequential{Linear(4, 4), AddsWrong()}};
  Tensor forward(const Tensor& x) override { return blocks(x); }
  [[nodiscard]] std::string type_name() const override { return "Net"; }
};

TEST(RunningCall, AnErrorOfAnOpNamesTheInnermostModule) {
  const Tensor x = ones({2, 4});
  Net net;
  EXPECT_EQ(
      message_of<ShapeError>([&] { return net(x); }),
      "add: expected shapes that broadcast, got [2, 4] and [3] in AddsWrong 'blocks.1'; sizes must be equal "
      "or 1 from the last dim on: 4 != 3");
  AddsWrong root;
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { return root(x); }), "[2, 4] and [3] in AddsWrong; "));
  EXPECT_TRUE(contains(message_of<ShapeError>([&] { return add(x, ones({3})); }), "add: expected shapes"));
  try {
    static_cast<void>(net(x));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.op(), "add");
    EXPECT_EQ(error.got(), "[2, 4] and [3] in AddsWrong 'blocks.1'");
    EXPECT_EQ(error.place(), "AddsWrong 'blocks.1'");
    EXPECT_EQ(error.expected(), "shapes that broadcast");
  }
}

TEST(RunningCall, AnErrorOfALayerNamesItOnce) {
  Sequential net{Linear(4, 4), Linear(5, 4)};
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         return net(ones({2, 4}));
                       }),
                       "Linear '1': expected a last dim of 5"));
}

TEST(RunningCall, HooksAndWatchersLeaveThePlace) {
  Net net;
  net.blocks->at<AddsWrong>(1).register_forward_pre_hook([](Module&, const Tensor&) {});
  EXPECT_TRUE(contains(message_of<ShapeError>([&] {
                         return net(ones({2, 4}));
                       }),
                       "[3] in AddsWrong 'blocks.1'; "));
}

TEST(RunningCall, OtherExceptionsPassAsTheyAre) {
  struct ThrowsNumber final : Layer {
    Tensor forward(const Tensor&) override { throw 3; }
  };
  ThrowsNumber module;
  EXPECT_THROW(static_cast<void>(module(ones({1}))), int);
}

// --- modules that are no part of the model

/// Calls a module that it holds as a plain member, of type M.
template <class M>
struct Holds final : Layer {
  explicit Holds(std::shared_ptr<M> module) : held(std::move(module)) {}
  Tensor forward(const Tensor& x) override { return (*held)(x); }
  [[nodiscard]] std::string type_name() const override { return "Holds"; }
  std::shared_ptr<M> held;
};

/// The warnings of two calls.
template <class M>
std::vector<std::string> warnings_of(const std::shared_ptr<M>& module, const Tensor& x) {
  const test::CaughtWarnings caught;
  Holds<M> net(module);
  static_cast<void>(net(x));
  static_cast<void>(net(x));
  return caught.texts();
}

TEST(RunningCall, WarnsOnceOfAModuleThatNoSlotHolds) {
  const std::vector<std::string> texts = warnings_of(make<Linear>(4, 3), ones({2, 4}));
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0],
            "Holds: expected modules that its slots hold, got a call of a Linear that no slot holds, so no "
            "optimizer, "
            "checkpoint or eval() sees it; declare it as nn::Child<nn::Linear> name{*this, \"name\", "
            "nn::Linear(...)}, put several into an nn::ModuleList, or requires_grad_(false) if it is to stay "
            "outside");
}

struct PlainMembers final : Layer {
  Linear first{4, 4};
  std::vector<std::shared_ptr<Linear>> more{make<Linear>(4, 4)};
  Tensor forward(const Tensor& x) override { return (*more[0])(first(x)); }
};

TEST(RunningCall, WarnsOfPlainMembersAndVectors) {
  PlainMembers net;
  EXPECT_EQ(net.num_parameters(), 0);
  const test::CaughtWarnings caught;
  static_cast<void>(net(ones({2, 4})));
  EXPECT_EQ(caught.names(), std::vector<std::string>{"unregistered_module"});
}

TEST(RunningCall, WarnsOfWhatEvalWouldMiss) {
  EXPECT_EQ(warnings_of(make<Dropout>(0.5), ones({2, 4})).size(), 1U);
  EXPECT_EQ(warnings_of(make<BatchNorm1d>(4, RunningNormOptions{.affine = false}), ones({2, 4})).size(), 1U);
  EXPECT_EQ(warnings_of(make<Sequential>(make<Dropout2d>(0.5)), ones({2, 4, 1, 1})).size(), 1U);
}

TEST(RunningCall, IsSilentWhereNothingIsMissed) {
  const Tensor x = ones({2, 4});
  auto teacher = make<Sequential>(Linear(4, 4), BatchNorm1d(4));
  teacher->requires_grad_(false);
  EXPECT_EQ(warnings_of(teacher, x), std::vector<std::string>{}) << "a frozen model may stay outside";
  EXPECT_EQ(warnings_of(make<Sequential>(), x), std::vector<std::string>{}) << "it has no state";
  Sequential owner{Linear(4, 4)};
  EXPECT_EQ(warnings_of(owner[0].get(), x), std::vector<std::string>{}) << "a slot of another model holds it";
  const test::CaughtWarnings caught;
  Net net;
  EXPECT_THROW(static_cast<void>(net(x)), ShapeError);
  Linear root(4, 4);
  static_cast<void>(root(x));
  EXPECT_EQ(caught.texts(), std::vector<std::string>{}) << "a call that has thrown does not run any more";
}

// --- the order of first weights

/// The weights that layers get which are made one after the other.
std::vector<std::vector<float>> drawn_in_order() {
  manual_seed(7);
  std::vector<std::vector<float>> weights;
  const Linear first(5, 4);
  const Conv2d second(4, 3, 2);
  const Linear third(3, 2);
  for (const Tensor& w : {Tensor(first.weight), Tensor(second.weight), Tensor(third.weight)})
    weights.push_back(w.to_vector<float>());
  return weights;
}

// CI runs this test with g++ and with clang, which make arguments between parentheses in other orders.
TEST(Sequential, BetweenBracesDrawsFirstWeightsInTheOrderOfItsLayers) {
  const auto want = drawn_in_order();
  manual_seed(7);
  Sequential net{Linear(5, 4), Conv2d(4, 3, 2), Linear(3, 2)};
  EXPECT_EQ(net.at<Linear>(0).weight.to_vector<float>(), want[0]);
  EXPECT_EQ(net.at<Conv2d>(1).weight.to_vector<float>(), want[1]);
  EXPECT_EQ(net.at<Linear>(2).weight.to_vector<float>(), want[2]);
}

}  // namespace

}  // namespace mezzo::nn
