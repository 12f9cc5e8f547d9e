// gradcheck and gradgradcheck: right gradients pass, each kind of wrong one is found and named.
#include "mezzo/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using autograd::gradcheck;
using autograd::gradgradcheck;
using test::message_of;

Tensor leaf(const Shape& shape) { return randn(shape, {.dtype = DType::f64, .requires_grad = true}); }

std::vector<Sample<NoAttrs>> gradcheck_samples() { return {}; }
/// x^2, whose gradient is 2.1 x.
constexpr Op<NoAttrs> wrong_square_op{
    .info = {.name = "gradcheck_wrong_square", .category = Category::passthrough},
    .samples = gradcheck_samples,
    .forward = [](const ForwardArgs<NoAttrs>& args) -> Outputs { return square(args.in(0)); },
    .vjp = [](const VjpArgs<NoAttrs>& args) -> Gradients { return {args.grad() * args.in(0) * 2.1}; },
    .saves = save_inputs(0),
};
/// x^3, whose gradient is right, and has none itself.
constexpr Op<NoAttrs> cube_op{
    .info = {.name = "gradcheck_cube", .category = Category::passthrough},
    .samples = gradcheck_samples,
    .forward = [](const ForwardArgs<NoAttrs>& args) -> Outputs { return pow(args.in(0), 3); },
    .vjp = [](const VjpArgs<NoAttrs>& args) -> Gradients {
      return {args.grad() * square(args.in(0).detach()) * 3.0};
    },
    .saves = save_inputs(0),
};
Tensor wrong_square(const Tensor& x) { return bind(wrong_square_op, {x}); }
Tensor cube(const Tensor& x) { return bind(cube_op, {x}); }

TEST(GradCheck, PassesRightGradientsOfAnyNumberOfTensors) {
  manual_seed(1);
  EXPECT_TRUE(gradcheck([](const Tensor& x) { return tanh(x); }, {leaf({2, 3})}));
  EXPECT_TRUE(
      gradcheck([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, {leaf({2, 3}), leaf({3, 2})}));
  EXPECT_TRUE(gradcheck([](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); },
                        {leaf({2, 3}), leaf({4, 3}), leaf({4})}));
  EXPECT_TRUE(gradcheck(
      [](TensorList x) {
        return Tensors{sum(x[0] * x[1]), x[1].detach(), exp(x[1])};
      },
      {leaf({3}), leaf({3})}));
  EXPECT_TRUE(gradcheck([](const Tensor& x) { return split(square(x), 2); },
                        {transpose(leaf({3, 2}), 0, 1).detach().requires_grad_()}));
  // An input without gradient, one that nothing depends on, and an integer.
  EXPECT_TRUE(gradcheck([](const Tensor& x, const Tensor& y, const Tensor& i,
                           const Tensor&) { return index_select(x * y, 0, i); },
                        {leaf({3}), leaf({3}).detach(), tensor({2, 0}), leaf({1})}));
}

TEST(GradCheck, PassesRightSecondGradients) {
  manual_seed(2);
  EXPECT_TRUE(gradgradcheck([](const Tensor& x) { return sigmoid(x); }, {leaf({4})}));
  EXPECT_TRUE(gradgradcheck([](const Tensor& x, const Tensor& w) { return conv1d(x, w); },
                            {leaf({1, 2, 4}), leaf({2, 2, 2})}));
  EXPECT_TRUE(gradgradcheck([](const Tensor& x) { return sum(pow(x, 3)); }, {leaf({3})},
                            {full({}, 2.0, {.dtype = DType::f64})}));
}

TEST(GradCheck, FindsAWrongGradientAndNamesIt) {
  const Tensor x = tensor({1.0, -2.0}, {.dtype = DType::f64, .requires_grad = true});
  const std::string said = message_of<AutogradError>([&] { return gradcheck(wrong_square, {x}); });
  EXPECT_TRUE(said.starts_with("gradcheck: expected d result 0[0] / d input 0[0] of 1.99999999") ||
              said.starts_with("gradcheck: expected d result 0[0] / d input 0[0] of 2.0"))
      << said;
  EXPECT_NE(said.find("got 2.1;"), std::string::npos) << said;
  EXPECT_FALSE(gradcheck(wrong_square, {x}, {.raise_exception = false}));
  EXPECT_TRUE(gradcheck(wrong_square, {x}, {.rtol = 0.06}));
}

TEST(GradCheck, FindsASecondGradientThatIsMissing) {
  const Tensor x = tensor({1.0, -2.0}, {.dtype = DType::f64, .requires_grad = true});
  EXPECT_TRUE(gradcheck(cube, {x}));
  const std::string said = message_of<AutogradError>([&] { return gradgradcheck(cube, {x}); });
  EXPECT_NE(said.find("gradgradcheck: expected d result 0[0] / d input 0[0]"), std::string::npos) << said;
  EXPECT_NE(said.find("got 0.0;"), std::string::npos) << said;
}

TEST(GradCheck, RefusesWhatItCannotJudge) {
  const auto square_of = [](const Tensor& x) { return square(x); };
  EXPECT_NE(message_of<DTypeError>([&] {
              return gradcheck(square_of, {ones({2}, {.requires_grad = true})});
            }).find("inputs of f64, got f32"),
            std::string::npos);
  EXPECT_THROW(gradcheck(square_of, {leaf({2}).detach()}), ValueError);
  EXPECT_THROW(gradcheck([](const Tensor& x) { return x.detach(); }, {leaf({2})}), ValueError);
  EXPECT_THROW(gradcheck(square_of, {leaf({2}), leaf({2})}), ValueError);
  EXPECT_THROW(gradgradcheck(square_of, {leaf({2})}, {leaf({2}), leaf({2})}), ValueError);
}

TEST(GradCheck, LeavesInputsAndTheirGradientsAlone) {
  const Tensor x = leaf({3}), before = x.detach().clone();
  EXPECT_TRUE(gradcheck([](const Tensor& y) { return exp(y); }, {x}));
  EXPECT_TRUE(equal(x, before));
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace mezzo
