// Gradients that a receiver gets in place of `.grad`: when, in which order, and what is left as it was.
#include "mezzo/autograd/gradient_receiver.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

/// Writes down its calls.
class Notes final : public autograd::GradientReceiver {
 public:
  void begin(std::span<const std::size_t> leaves) override {
    calls.push_back("begin");
    for (const std::size_t leaf : leaves) calls.back() += " " + std::to_string(leaf);
    if (refuses) throw StateError("test", "a", "b", "c");
  }
  void receive(std::size_t leaf, Tensor gradient) override {
    calls.push_back(std::to_string(leaf));
    gradients.push_back(std::move(gradient));
  }
  void finish() override { calls.emplace_back("finish"); }
  void abandon() noexcept override { calls.emplace_back("abandon"); }

  std::vector<std::string> calls;
  std::vector<Tensor> gradients;
  bool refuses = false;
};

/// Leaves with a receiver as long as it lives.
struct Received {
  explicit Received(std::vector<Tensor> list) : leaves(std::move(list)) {
    for (std::size_t i = 0; i < leaves.size(); ++i) autograd::set_gradient_receiver(leaves[i], notes, i);
  }
  ~Received() {
    for (const Tensor& leaf : leaves) autograd::clear_gradient_receiver(leaf);
  }
  std::vector<Tensor> leaves;
  Ref<Notes> notes = make_ref<Notes>();
};

Tensor leaf(double value) { return full({2}, value, {.requires_grad = true}); }

using Calls = std::vector<std::string>;

TEST(GradientReceiver, GetsEachGradientAsSoonAsItIsComplete) {
  const Tensor a = leaf(2), b = leaf(3), c = leaf(5);
  const Received received({a, b, c});
  std::size_t calls_at_a = 0;
  const Tensor ab = mul(a, b);  // a and b are complete after this node, which comes last in backward
  static_cast<void>(ab.register_hook([&](const Tensor&) { calls_at_a = received.notes->calls.size(); }));
  sum(mul(ab, c)).backward();
  EXPECT_EQ(received.notes->calls, (Calls{"begin 0 1 2", "2", "0", "1", "finish"}));
  EXPECT_EQ(calls_at_a, 2U);  // c's was there before the gradient of a b was made
  EXPECT_EQ(received.notes->gradients[0].select(0, 0).item(), 6);
  EXPECT_EQ(received.notes->gradients[1].select(0, 0).item(), 15);
  EXPECT_EQ(received.notes->gradients[2].select(0, 0).item(), 10);
  EXPECT_FALSE(a.grad().defined());
}

TEST(GradientReceiver, ALeafUsedSeveralTimesComesOnceWithTheSum) {
  const Tensor a = leaf(2);
  const Received received({a});
  sum(add(mul(a, a), mul(a, 3.0))).backward();
  EXPECT_EQ(received.notes->calls, (Calls{"begin 0", "0", "finish"}));
  EXPECT_EQ(received.notes->gradients[0].select(0, 1).item(), 7);
}

TEST(GradientReceiver, OthersKeepTheirGrad) {
  const Tensor a = leaf(2), other = leaf(3);
  const Received received({a});
  sum(mul(a, other)).backward();
  EXPECT_EQ(other.grad().select(0, 0).item(), 2);
  EXPECT_FALSE(a.grad().defined());
}

TEST(GradientReceiver, LeavesThatAreNotReachedAreNotAnnounced) {
  const Tensor a = leaf(2), b = leaf(3);
  const Received received({a, b});
  sum(mul(b, b)).backward();
  EXPECT_EQ(received.notes->calls, (Calls{"begin 1", "1", "finish"}));
  received.notes->calls.clear();
  const Tensor other = leaf(1);
  sum(other).backward();
  EXPECT_TRUE(received.notes->calls.empty());
}

TEST(GradientReceiver, HooksRunBeforeAndOnce) {
  const Tensor a = leaf(2);
  int hooks = 0;
  static_cast<void>(a.register_hook([&](const Tensor& gradient) {
    ++hooks;
    return mul(gradient, 10.0);
  }));
  const Received received({a});
  sum(mul(a, 3.0)).backward();
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(received.notes->gradients[0].select(0, 0).item(), 30);
}

TEST(GradientReceiver, ABackwardThatThrowsIsAbandoned) {
  const Tensor a = leaf(2), b = leaf(3);
  const Received received({a, b});
  const Tensor product = mul(a, b);
  static_cast<void>(product.register_hook([](const Tensor&) { throw ValueError("hook", "a", "b", "c"); }));
  EXPECT_THROW(sum(mul(product, b)).backward(), ValueError);
  EXPECT_EQ(received.notes->calls, (Calls{"begin 0 1", "abandon"}));
  received.notes->calls.clear();
  received.notes->refuses = true;
  EXPECT_THROW(sum(b).backward(), StateError);
  EXPECT_EQ(received.notes->calls, (Calls{"begin 1"}));
}

TEST(GradientReceiver, GradDoesNotAskIt) {
  const Tensor a = leaf(2);
  const Received received({a});
  const Tensors gradients = grad({sum(mul(a, a))}, {a});
  EXPECT_EQ(gradients[0].select(0, 0).item(), 4);
  EXPECT_TRUE(received.notes->calls.empty());
}

TEST(GradientReceiver, CreateGraphIsRefused) {
  const Tensor a = leaf(2);
  const Received received({a});
  EXPECT_THROW(sum(mul(a, a)).backward({.create_graph = true}), AutogradError);
  EXPECT_EQ(received.notes->calls, (Calls{"begin 0", "abandon"}));
}

TEST(GradientReceiver, OneAtATime) {
  const Tensor a = leaf(2);
  {
    const Received received({a});
    EXPECT_THROW(autograd::set_gradient_receiver(a, make_ref<Notes>(), 0), StateError);
  }
  sum(a).backward();
  EXPECT_EQ(a.grad().select(0, 0).item(), 1);
}

TEST(GradientReceiver, ALossThatIsALeafItself) {
  const Tensor a = full({}, 2.0, {.requires_grad = true});
  const Received received({a});
  a.backward();
  EXPECT_EQ(received.notes->calls, (Calls{"begin 0", "0", "finish"}));
  EXPECT_EQ(received.notes->gradients[0].item(), 1);
}

}  // namespace
}  // namespace mezzo
