// A user's own op goes through the same descriptor as the library's: gradients, registry, decomposed vjps,
// and bad descriptors.
#include <gtest/gtest.h>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"

namespace mezzo {
namespace {

struct PowerAttrs {
  std::int64_t times = 2;
  static constexpr auto fields() { return std::tuple{attr("times", &PowerAttrs::times)}; }
};

Outputs repeated_forward(const ForwardArgs<PowerAttrs>& args) {
  Tensor y = args.in(0);
  for (std::int64_t i = 1; i < args.attrs.times; ++i) y = y * args.in(0);
  return y;
}
std::vector<Sample<PowerAttrs>> repeated_samples() { return {{{samples::real({3})}, {3}}}; }
constexpr Op<PowerAttrs> repeated_op{
    .info = {.name = "test_repeated_product", .category = Category::passthrough},
    .samples = repeated_samples,
    .forward = repeated_forward,
    .vjp = decomposed<repeated_forward, PowerAttrs>,
    .saves = save_inputs(0),
};

Outputs wrong_forward(const ForwardArgs<NoAttrs>& args) { return args.in(0) * 1.0; }
Gradients wrong_vjp(const VjpArgs<NoAttrs>& /*args*/) { return {}; }
std::vector<Sample<NoAttrs>> no_samples() { return {}; }
constexpr Op<NoAttrs> wrong_op{
    .info = {.name = "test_wrong", .category = Category::passthrough},
    .samples = no_samples,
    .forward = wrong_forward,
    .vjp = wrong_vjp,
    .saves = kSaveNothing,
};

Tensor x64(double value) { return tensor({value}, {.dtype = DType::f64, .requires_grad = true}); }

TEST(CustomOp, HasDerivativesOfEveryOrderFromItsComposition) {
  const Tensor x = x64(2);
  const Tensor y = bind(repeated_op, {x}, PowerAttrs{5});
  EXPECT_EQ(y.item(), 32);
  const Tensor first = grad(sum(y), {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.item(), 5 * 16);
  const Tensor second = grad(sum(first), {x}, {.create_graph = true})[0];
  EXPECT_EQ(second.item(), 20 * 8);
  EXPECT_EQ(grad(sum(second), {x})[0].item(), 60 * 4);
}

TEST(CustomOp, SeparatesTheGradientsOfATensorThatIsUsedTwice) {
  const Tensor x = x64(3);
  const Tensor inner = x * 2.0;
  const Tensor y = bind(repeated_op, {inner}, PowerAttrs{2}) + inner;
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), (2 * 6 + 1) * 2);
}

TEST(CustomOp, IsCalledByNameOnceRegistered) {
  static const Registered registered{repeated_op};
  const Tensor x = x64(2);
  const Tensor y = call_op("test_repeated_product", {x}, Value(Value::Map{{"times", 3}}));
  EXPECT_EQ(y.item(), 8);
  EXPECT_THROW(static_cast<void>(call_op("test_repeated_product", {x}, Value(Value::Map{{"tims", 3}}))),
               ValueError);
  EXPECT_THROW(Registered{repeated_op}, ValueError) << "the name is taken";
  EXPECT_THROW(static_cast<void>(call_op("test_repeated_produkt", {x})), ValueError);
}

TEST(CustomOp, WithTooFewGradientsIsNamed) {
  const Tensor x = x64(2);
  const Tensor y = bind(wrong_op, {x});
  try {
    sum(y).backward();
    FAIL() << "expected an AutogradError";
  } catch (const AutogradError& error) {
    EXPECT_EQ(error.op(), "test_wrong");
  }
}

}  // namespace
}  // namespace mezzo
