// Ops as closures: gradients of both orders, what is saved, autocast, recomputation, misuse.
#include "mezzo/autograd/function.h"

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/checkpoint.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/gradcheck.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/support/message_of.h"

namespace mezzo {
namespace {

using autograd::FunctionContext;

Tensor leaf(const Shape& shape, DType dtype = DType::f64) {
  return randn(shape, {.dtype = dtype, .requires_grad = true});
}

/// x^3 from its saved input.
Tensor cube(const Tensor& x) {
  return autograd::function(
      {x},
      [](FunctionContext& context, TensorList in) -> Tensors {
        context.save_for_backward({in[0]});
        return {pow(in[0], 3)};
      },
      [](const FunctionContext& context, TensorList grads) -> Tensors {
        return {grads[0] * square(context.saved_tensors()[0]) * 3.0};
      })[0];
}

/// exp(x) y, from the saved result and input, and a tensor that forward has made.
Tensors exp_times(const Tensor& x, const Tensor& y) {
  return autograd::function(
      {x, y},
      [](FunctionContext& context, TensorList in) -> Tensors {
        const Tensor e = exp(in[0]), product = e * in[1];
        context.save_for_backward({e, product, in[1]});
        return {product, argmax(e)};
      },
      [](const FunctionContext& context, TensorList grads) -> Tensors {
        const Tensors& saved = context.saved_tensors();
        EXPECT_FALSE(saved[0].requires_grad());
        return {grads[0] * saved[1], context.needs_input_grad(1) ? grads[0] * saved[0] : Tensor()};
      });
}

TEST(Function, HasGradientsOfBothOrders) {
  manual_seed(1);
  EXPECT_TRUE(autograd::gradcheck(cube, {leaf({2, 3})}));
  EXPECT_TRUE(autograd::gradgradcheck(cube, {leaf({3})}));
  const auto product = [](const Tensor& x, const Tensor& y) { return exp_times(x, y)[0]; };
  EXPECT_TRUE(autograd::gradcheck(product, {leaf({3}), leaf({3})}));
  EXPECT_TRUE(autograd::gradcheck(product, {leaf({3}), leaf({3}).detach()}));
  // The saved result has its history: d2/dx2 of exp(x) y.
  const Tensor x = leaf({3}), y = leaf({3}).detach();
  const Tensor first = grad({product(x, y).sum()}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(allclose(grad({first.sum()}, {x})[0], exp(x) * y, 1e-14));
}

TEST(Function, ResultsThatAreNotFloatingHaveNoGradient) {
  const Tensor x = leaf({3}), y = leaf({3});
  const Tensors results = exp_times(x, y);
  EXPECT_TRUE(results[0].requires_grad());
  EXPECT_FALSE(results[1].requires_grad());
  const NoGrad no_grad;
  EXPECT_FALSE(exp_times(x, y)[0].requires_grad());
}

TEST(Function, AResultMayBeAnInputAndInputsMayBeLeftOut) {
  const Tensor x = leaf({2});
  const Tensors same = autograd::function(
      {x, Tensor()},
      [](FunctionContext&, TensorList in) -> Tensors {
        return {in[0], in[0] * 2.0};
      },
      [](const FunctionContext&, TensorList grads) -> Tensors {
        return {grads[0] * 10.0 + grads[1], Tensor()};
      });
  EXPECT_FALSE(same[0].is_same(x));
  same[0].sum().backward({}, {.retain_graph = true});  // no gradient comes to the second: zeros
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{10, 10}));
}

TEST(Function, RunsUnderTheAutocastOfItsCaller) {
  const Tensor x = leaf({4, 4}, DType::f32);
  DType forward = DType::f32, backward = DType::f32;
  Tensor y;
  {
    const amp::Autocast autocast(DType::bf16);
    y = autograd::function(
        {x},
        [&](FunctionContext& context, TensorList in) -> Tensors {
          context.save_for_backward({in[0]});
          const Tensor result = matmul(in[0], in[0]);
          forward = result.dtype();
          return {result};
        },
        [&](const FunctionContext& context, TensorList grads) -> Tensors {
          const Tensor& saved = context.saved_tensors()[0];
          const Tensor result = matmul(grads[0], t(saved)) + matmul(t(saved), grads[0]);
          backward = result.dtype();
          return {result};
        })[0];
  }
  sum(y.to(DType::f32)).backward();
  EXPECT_EQ(forward, DType::bf16);
  EXPECT_EQ(backward, DType::bf16);
  EXPECT_EQ(x.grad().dtype(), DType::f32);
}

TEST(Function, IsRecomputedWithWhatIsCheckpointed) {
  const Tensor x = leaf({3});
  const Tensor plain = grad({cube(sin(x)).sum()}, {x})[0];
  const Tensor again = autograd::checkpoint([](const Tensor& in) { return cube(sin(in)); }, x);
  EXPECT_TRUE(equal(grad({again.sum()}, {x})[0], plain));
}

TEST(Function, RefusesWrongGradientsAndWhatWasWrittenOrFreed) {
  const auto with = [](const Tensor& x, const autograd::FunctionBackward& backward) {
    return autograd::function(
        {x}, [](FunctionContext&, TensorList in) -> Tensors { return {in[0] * 2.0}; }, backward)[0];
  };
  const Tensor x = leaf({2});
  EXPECT_EQ(
      test::message_of<AutogradError>([&] {
        with(x, [](const FunctionContext&, TensorList) -> Tensors { return {}; }).sum().backward();
        return 0;
      }),
      "autograd::function: expected 1 gradients, one for each input, got 0; leave those that are not needed "
      "undefined");
  EXPECT_THROW(
      with(x, [](const FunctionContext&, TensorList) -> Tensors { return {ones({5})}; }).sum().backward(),
      Error);
  const Tensor doubled = x * 2.0, y = cube(doubled);
  {
    const NoGrad no_grad;
    doubled.add_(1.0);
  }
  EXPECT_THROW(y.sum().backward(), AutogradError);
  const Tensor z = cube(x).sum();
  z.backward();
  EXPECT_THROW(z.backward(), AutogradError);
}

}  // namespace
}  // namespace mezzo
