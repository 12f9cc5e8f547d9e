// The in-place members that are made of ops: values, gradients and refusals.
#include <gtest/gtest.h>

#include <functional>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

struct Member {
  const char* name;
  std::function<void(const Tensor&)> write;
  std::function<Tensor(const Tensor&)> op;  ///< the same as a function
};
#define WRITE(call) [=](const Tensor& x) { call; }
#define OP(call) [=](const Tensor& x) { return call; }

std::vector<Member> members() {
  const Tensor a = tensor({0.5, -1.0, 2.0}), b = tensor({2.0, 4.0, -3.0});
  const Tensor index = tensor({2, 0, 1}), mask = tensor({true, false, true});
  return {
      {"sub_", WRITE(x.sub_(a, 3)), OP(sub(x, a, 3))},
      {"sub_ of a number", WRITE(x.sub_(1.5)), OP(sub(x, 1.5))},
      {"div_", WRITE(x.div_(b)), OP(div(x, b))},
      {"div_ of a number", WRITE(x.div_(3)), OP(div(x, 3))},
      {"addcmul_", WRITE(x.addcmul_(a, b, 2)), OP(addcmul(x, a, b, 2))},
      {"addcdiv_", WRITE(x.addcdiv_(a, b, 2)), OP(addcdiv(x, a, b, 2))},
      {"lerp_", WRITE(x.lerp_(a, 0.25)), OP(lerp(x, a, 0.25))},
      {"masked_fill_", WRITE(x.masked_fill_(mask, 9)), OP(masked_fill(x, mask, 9))},
      {"scatter_", WRITE(x.scatter_(0, index, a)), OP(scatter(x, 0, index, a))},
      {"scatter_ of a number", WRITE(x.scatter_(0, index, 2)), OP(scatter(x, 0, index, 2))},
      {"scatter_add_", WRITE(x.scatter_add_(0, index, a)), OP(scatter_add(x, 0, index, a))},
      {"index_add_", WRITE(x.index_add_(0, index, a, 2)), OP(index_add(x, 0, index, a, 2))},
      {"pow_", WRITE(x.pow_(2)), OP(pow(x, 2))},
      {"clamp_", WRITE(x.clamp_(1, 2.5)), OP(clamp(x, 1, 2.5))},
      {"clamp_min_", WRITE(x.clamp_min_(2)), OP(x.clamp_min(2))},
      {"clamp_max_", WRITE(x.clamp_max_(2)), OP(x.clamp_max(2))},
      {"neg_", WRITE(x.neg_()), OP(neg(x))},
      {"abs_", WRITE(x.abs_()), OP(abs(x))},
      {"exp_", WRITE(x.exp_()), OP(exp(x))},
      {"log_", WRITE(x.log_()), OP(log(x))},
      {"sqrt_", WRITE(x.sqrt_()), OP(sqrt(x))},
      {"floor_", WRITE(x.floor_()), OP(floor(x))},
      {"round_", WRITE(x.round_()), OP(round(x))},
      {"relu_", WRITE(x.relu_()), OP(relu(x))},
      {"sigmoid_", WRITE(x.sigmoid_()), OP(sigmoid(x))},
      {"tanh_", WRITE(x.tanh_()), OP(tanh(x))},
  };
}
#undef WRITE
#undef OP

TEST(TensorInplace, HaveTheValuesAndGradientsOfTheirOps) {
  for (const Member& member : members()) {
    SCOPED_TRACE(member.name);
    const Tensor start = tensor({0.75, 1.5, 3.25}), weights = tensor({1.0, -2.0, 3.0});
    const Tensor plain = start.clone();
    const std::uint32_t version = plain.version();
    member.write(plain);
    EXPECT_GT(plain.version(), version);
    EXPECT_TRUE(equal(plain, member.op(start)));

    const Tensor leaf = start.clone().requires_grad_(), twin = start.clone().requires_grad_();
    const Tensor x = leaf * 2;
    member.write(x);
    // A second gradient, too: the first one is squared.
    const Tensor first = grad((x * x * weights).sum(), leaf, {.create_graph = true})[0];
    const Tensor y = member.op(twin * 2);
    const Tensor expected = grad((y * y * weights).sum(), twin, {.create_graph = true})[0];
    EXPECT_TRUE(equal(first, expected)) << first << " for " << expected;
    if (!expected.requires_grad()) continue;
    // The graphs differ by a copy, and so may the order in which gradients are added up.
    EXPECT_TRUE(allclose(grad(square(first).sum(), leaf)[0], grad(square(expected).sum(), twin)[0], 1e-6));
  }
}

TEST(TensorInplace, KeepsTheDType) {
  const Tensor half = ones({3}, DType::f16), whole = tensor({7, 8, 9});
  EXPECT_EQ(half.sub_(0.5).div_(2).dtype(), DType::f16);
  EXPECT_TRUE(equal(half, full({3}, 0.25)));
  EXPECT_THROW(whole.div_(2), DTypeError);
  EXPECT_THROW(whole.sigmoid_(), DTypeError);
  EXPECT_THROW(whole.sub_(0.5), DTypeError);
  EXPECT_TRUE(equal(whole.sub_(2), tensor({5, 6, 7})));
  EXPECT_THROW(tensor({true}).sub_(tensor({true})), DTypeError);
  EXPECT_THROW(tensor({true}).sub_(1), DTypeError);
}

TEST(TensorInplace, Refuses) {
  const Tensor x = ones({2}), leaf = ones({2}).requires_grad_();
  EXPECT_THROW(x.div_(ones({3, 2})), ShapeError);
  EXPECT_THROW(x.sub_(ones({3, 2})), ShapeError);
  EXPECT_THROW(Tensor().exp_(), ValueError);
  EXPECT_THROW(Tensor().sub_(1), ValueError);
  EXPECT_THROW(x.expand({3, 2}).neg_(), ShapeError);
  for (const Member& member : members()) {
    const Tensor trained = tensor({1.0, 2.0, 3.0}).requires_grad_();
    EXPECT_THROW(member.write(trained), AutogradError) << member.name;
  }
  const NoGrad no_grad;
  EXPECT_TRUE(equal(leaf.div_(2), full({2}, 0.5)));
}

TEST(TensorInplace, Operators) {
  Tensor x = tensor({1.0, 2.0});
  x += tensor({1.0, 1.0});
  x -= 1;
  x *= tensor({2.0, 3.0});
  x /= 2;
  EXPECT_TRUE(equal(x, tensor({1.0, 3.0})));
  const Tensor same = x;
  x -= same;
  x += 4;
  x *= 0.5;
  x /= tensor({1.0, 4.0});
  EXPECT_TRUE(equal(x, tensor({2.0, 0.5})));
}

TEST(TensorInplace, RandomValuesAreThoseOfTheFunctions) {
  Generator& generator = default_generator();
  const auto state = generator.state();
  const Tensor x = empty({5}), y = empty({5});
  x.normal_(1, 2);
  x.uniform_(-1, 1);
  generator.set_state(state);
  normal_(y, 1, 2);
  uniform_(y, -1, 1);
  EXPECT_TRUE(equal(x, y));
}

}  // namespace
}  // namespace mezzo
