// Calls of modules: `child(x)` is `child->forward(x)`, and observers see it begin and end.
#include "mezzo/nn/call.h"

#include <thread>
#include <tuple>

#include "mezzo/nn/loss.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/shape.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;
using Names = std::vector<std::string>;

/// Writes down what it is told: "<Type" for the beginning, "Type> [shape]" for the end.
struct Notes final : CallObserver {
  void enter(const Module& module) override { lines.push_back("<" + module.type_name()); }
  void leave(const Module& module, const Tensor* output) override {
    lines.push_back(module.type_name() + ">" + (output != nullptr ? " " + to_string(output->shape()) : ""));
    last = output != nullptr ? *output : Tensor();
  }
  std::vector<std::string> lines;
  Tensor last;
};

/// Returns R, made by a function of one tensor.
template <class R>
struct Returns final : Module {
  explicit Returns(R (*made)(const Tensor&)) : make_result(made) {}
  R forward(const Tensor& x) { return make_result(x); }
  [[nodiscard]] std::string type_name() const override { return "Returns"; }
  R (*make_result)(const Tensor&);
};

struct TwoInputs final : Module {
  Tensor forward(const Tensor& x, const Tensor& y, int times) {
    calls += times;
    return times > 1 ? y : x;
  }
  int calls = 0;
};

struct Throws final : Layer {
  Tensor forward(const Tensor& /*x*/) override { throw StateError("Throws", "luck", "none", "try again"); }
};

struct Pair final : Module {
  Tensor forward(const Tensor& x) { return both(x, second(x), 2); }
  Child<TwoInputs> both{*this, "both", make<TwoInputs>()};
  Child<Layer> second{*this, "second", make<Gain>()};
  Child<Layer> empty{*this, "empty"};
};

TEST(Call, OfAChildIsItsForwardWithAllArguments) {
  Pair pair;
  const Tensor x = counting({2}), y = counting({3});
  EXPECT_TRUE(pair.both(x, y, 1).is_same(x));
  EXPECT_TRUE(pair.both(x, y, 2).is_same(y));
  EXPECT_EQ(pair.both->calls, 3);
  EXPECT_TRUE(pair.second(x).is_same(x));
}

TEST(Call, OfAnEmptySlotIsRefusedAndNotTold) {
  const Pair pair;
  Notes notes;
  const CallObserverGuard guard(notes);
  const std::string message = message_of<StateError>([&] { (void)pair.empty(counting({1})); });
  EXPECT_TRUE(contains(message, "a module of type Layer in 'empty'"));
  EXPECT_TRUE(notes.lines.empty());
}

TEST(Call, OfLayersAndLossesThemselvesIsTheirForward) {
  Sequential net(make<Gain>());
  MSELoss loss;
  const Tensor x = counting({2});
  Notes notes;
  const CallObserverGuard guard(notes);
  EXPECT_TRUE(net(x).is_same(x));
  EXPECT_EQ(values(loss(x, counting({2}, 2))), (std::vector<float>{1}));
  EXPECT_EQ(notes.lines,
            (Names{"<Sequential", "<Gain", "Gain> [2]", "Sequential> [2]", "<MSELoss", "MSELoss> []"}));
}

TEST(Call, IsToldOnlyWhenMadeByTheOperator) {
  Pair pair;
  const Tensor x = counting({2});
  Notes notes;
  const CallObserverGuard guard(notes);
  (void)pair.forward(x);
  EXPECT_EQ(notes.lines, (Names{"<Gain", "Gain> [2]", "<TwoInputs", "TwoInputs> [2]"}));
  notes.lines.clear();
  (void)call(pair, x);
  EXPECT_EQ(notes.lines.front(), "<Pair");
  EXPECT_EQ(notes.lines.back(), "Pair> [2]");
  EXPECT_EQ(notes.lines.size(), 6U);
  notes.lines.clear();
  (void)pair.second->forward(x);
  EXPECT_TRUE(notes.lines.empty());
}

/// What an observer was given of a module that returns R.
template <class R>
Tensor observed(R (*made)(const Tensor&), const Tensor& x) {
  Returns<R> module(made);
  Notes notes;
  const CallObserverGuard guard(notes);
  if constexpr (std::is_void_v<R>)
    call(module, x);
  else
    (void)call(module, x);
  EXPECT_EQ(notes.lines.size(), 2U);
  return notes.last;
}

TEST(Call, ShowsTheFirstTensorOfItsResult) {
  struct State {
    Tensor h, c;
  };
  struct Result {
    Tensor output;
    State state;
  };
  const Tensor x = counting({4});
  EXPECT_TRUE(observed<Tensor>([](const Tensor& t) { return t; }, x).is_same(x));
  EXPECT_TRUE(observed<const Tensor&>([](const Tensor& t) -> const Tensor& { return t; }, x).is_same(x));
  EXPECT_TRUE(observed<State>([](const Tensor& t) { return State{t, {}}; }, x).is_same(x));
  EXPECT_TRUE(observed<Result>([](const Tensor& t) { return Result{t, {}}; }, x).is_same(x));
  using TensorPair = std::pair<Tensor, Tensor>;
  EXPECT_TRUE(observed<TensorPair>([](const Tensor& t) { return TensorPair{t, {}}; }, x).is_same(x));
  using Nested = std::tuple<std::pair<Tensor, int>, Tensor>;
  EXPECT_TRUE(observed<Nested>([](const Tensor& t) { return Nested{{t, 1}, {}}; }, x).is_same(x));
  EXPECT_FALSE(observed<int>([](const Tensor&) { return 1; }, x).defined());
  EXPECT_FALSE(observed<std::tuple<>>([](const Tensor&) { return std::tuple<>(); }, x).defined());
  EXPECT_FALSE(observed<void>([](const Tensor&) {}, x).defined());
}

TEST(Call, GivesTheCallerTheResultItShowed) {
  Gain gain;
  Notes notes;
  const CallObserverGuard guard(notes);
  const Tensor y = gain(counting({2}));
  EXPECT_TRUE(y.is_same(notes.last));
}

TEST(Call, EndsWithoutAResultWhenForwardThrows) {
  Sequential net(make<Gain>(), make<Throws>(), make<Gain>());
  const Tensor x = counting({2});
  Notes notes;
  const CallObserverGuard guard(notes);
  EXPECT_THROW((void)net(x), StateError);
  EXPECT_EQ(notes.lines, (Names{"<Sequential", "<Gain", "Gain> [2]", "<Throws", "Throws>", "Sequential>"}));
}

TEST(Call, IsToldToTheInnermostObserverOfItsThread) {
  Gain gain;
  const Tensor x = counting({2});
  Notes outer, inner;
  {
    const CallObserverGuard first(outer);
    {
      const CallObserverGuard second(inner);
      (void)gain(x);
      std::thread([&] { (void)gain(x); }).join();
    }
    (void)gain(x);
  }
  (void)gain(x);
  EXPECT_EQ(gain.calls, 4);
  EXPECT_EQ(inner.lines.size(), 2U);
  EXPECT_EQ(outer.lines.size(), 2U);
  EXPECT_EQ(detail::call_observer(), nullptr);
}

}  // namespace

}  // namespace mezzo::nn
