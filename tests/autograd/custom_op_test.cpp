// A user's own op goes through the same descriptor as the library's: gradients, registry, decomposed vjps,
// and bad descriptors.
#include <gtest/gtest.h>

#include "mezzo/autograd/decomposed.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/registry.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

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
std::vector<Sample<PowerAttrs>> repeated_samples() { return {{{op_samples::real({3})}, {3}}}; }
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

// --- ops whose gradients are wrong in other ways

Outputs doubled_forward(const ForwardArgs<NoAttrs>& args) { return args.in(0) * 2.0; }
/// An op that doubles its input, with this gradient.
constexpr Op<NoAttrs> doubled_op(std::string_view name, Vjp<NoAttrs>::Function vjp) {
  return {.info = {.name = name, .category = Category::passthrough},
          .samples = no_samples,
          .forward = doubled_forward,
          .vjp = vjp,
          .saves = kSaveNothing};
}
constexpr Op<NoAttrs> wrong_shape_op =
    doubled_op("test_wrong_shape", [](const VjpArgs<NoAttrs>&) -> Gradients { return {ones({5})}; });
constexpr Op<NoAttrs> unsaved_input_op =
    doubled_op("test_unsaved_input", [](const VjpArgs<NoAttrs>& args) -> Gradients { return {args.in(0)}; });
constexpr Op<NoAttrs> unsaved_output_op = doubled_op(
    "test_unsaved_output", [](const VjpArgs<NoAttrs>& args) -> Gradients { return {args.out(0)}; });
constexpr Op<NoAttrs> no_such_input_op =
    doubled_op("test_no_such_input", [](const VjpArgs<NoAttrs>& args) -> Gradients { return {args.in(4)}; });
constexpr Op<NoAttrs> failing_op = doubled_op("test_failing", [](const VjpArgs<NoAttrs>& args) -> Gradients {
  return {args.grad() + ones({2}) * ones({3})};
});

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
  EXPECT_EQ(test::message_of<ValueError>([&] { return call_op("test_repeated_produkt", {x}); }),
            "call_op: expected the name of a registered op, got \"test_repeated_produkt\"; did you mean "
            "test_repeated_product? all_ops() lists them");
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

TEST(CustomOp, WithAWrongGradientIsNamed) {
  const auto message = [](const Op<NoAttrs>& op) {
    const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}, {.requires_grad = true});
    return test::message_of<Error>([&] {
      sum(Tensor(bind(op, {x}))).backward();
      return 0;
    });
  };
  EXPECT_EQ(message(wrong_shape_op),
            "test_wrong_shape: expected a gradient of its input's shape, [4], got [5]; mend the op's vjp");
  EXPECT_EQ(message(unsaved_input_op),
            "test_unsaved_input: expected an input that the op's `saves` names, got input 0; add it there: "
            "save_inputs(0)");
  EXPECT_EQ(
      message(unsaved_output_op),
      "test_unsaved_output: expected an output that the op's `saves` names, got output 0; add it there: "
      "save_outputs(0)");
  EXPECT_EQ(
      message(no_such_input_op),
      "test_no_such_input: expected an input that the op's `saves` names, got input 4; the op has no such "
      "input");
  EXPECT_EQ(message(failing_op),
            "mul: expected shapes that broadcast, got [2] and [3] in the gradient of test_failing; sizes "
            "must be equal or "
            "1 from the last dim on: 2 != 3");
}

}  // namespace
}  // namespace mezzo
