// What a user passes where tensors, options or shapes are asked for.
#include <gtest/gtest.h>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

TEST(TensorList, IsBracesVectorsSpansOrOneTensor) {
  const Tensor a = ones({2}), b = zeros({3});
  const auto count = [](TensorList list) { return list.size(); };
  EXPECT_EQ(count({}), 0U);
  EXPECT_EQ(count(a), 1U);
  EXPECT_EQ(count({a}), 1U);
  EXPECT_EQ(count({a, b}), 2U);
  const std::vector<Tensor> vector{a, b, a};
  EXPECT_EQ(count(vector), 3U);
  EXPECT_EQ(count(std::span(vector).first(2)), 2U);
  EXPECT_EQ(count(Tensors{a, b}), 2U);
  EXPECT_EQ(count(nn::Linear(2, 2).parameters()), 2U);
  const TensorList list = vector;
  EXPECT_TRUE(list[1].is_same(b));
  EXPECT_TRUE(list.begin()[2].is_same(a));
  EXPECT_EQ(list.end() - list.begin(), 3);
  EXPECT_FALSE(list.empty());
}

TEST(TensorList, BackwardAndGrad) {
  const Tensor x = tensor({2.0, 3.0}).requires_grad_();
  backward({(x * 2).sum(), (x * 3).sum()});
  EXPECT_TRUE(equal(x.grad(), full({2}, 5)));
  x.set_grad({});
  (x * x).backward(tensor({1.0, 10.0}));
  EXPECT_TRUE(equal(x.grad(), tensor({4.0, 60.0})));
  const std::vector<Tensor> inputs{x};
  EXPECT_TRUE(equal(grad((x * x).sum(), inputs)[0], tensor({4.0, 6.0})));
  EXPECT_TRUE(equal(grad(x * x, x, ones({2}))[0], tensor({4.0, 6.0})));
  const Tensor first = grad((x * x * x).sum(), {x}, {.create_graph = true})[0];
  EXPECT_TRUE(equal(grad(first.sum(), {x}, {})[0], tensor({12.0, 18.0})));
}

TEST(TensorList, ClippingAndScaling) {
  const Tensor x = tensor({3.0}).requires_grad_(), y = tensor({4.0}).requires_grad_();
  backward({(x * 3).sum(), (y * 4).sum()});
  EXPECT_EQ(optim::clip_grad_norm_({x, y}, 1.0).item(), 5);
  EXPECT_NEAR(x.grad().item(), 0.6, 1e-6);
  optim::clip_grad_value_({x, y}, 0.5);
  EXPECT_EQ(y.grad().item(), 0.5);
  optim::clip_grad_value_(x, 0.25);
  EXPECT_EQ(x.grad().item(), 0.25);
  amp::GradScaler scaler({.init_scale = 8});
  const std::vector<Tensor> scaled = scaler.scale({x, y});
  EXPECT_EQ(scaled[1].item(), 32);
}

TEST(Hooks, MayReturnNothing) {
  const Tensor x = ones({2}).requires_grad_();
  double seen = 0;
  x.register_hook([&seen](const Tensor& gradient) { seen = gradient.sum().item(); });
  (x * 3).sum().backward();
  EXPECT_EQ(seen, 6);
  EXPECT_TRUE(equal(x.grad(), full({2}, 3)));
}

TEST(Factories, TakeADTypeOrADeviceAlone) {
  EXPECT_EQ(zeros({2}, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(ones({2}, Device::cpu()).dtype(), DType::f32);
  EXPECT_EQ(full({2}, 3, DType::i64).dtype(), DType::i64);
  EXPECT_EQ(empty({2}, DType::bf16).dtype(), DType::bf16);
  EXPECT_EQ(randn({2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(rand({2}, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(eye(2, DType::boolean).dtype(), DType::boolean);
  EXPECT_TRUE(equal(arange(3, DType::f32), tensor({0.0, 1.0, 2.0})));
  EXPECT_TRUE(equal(arange(1, 3, DType::f32), tensor({1.0, 2.0})));
  EXPECT_EQ(tensor({1, 2}, DType::f16).dtype(), DType::f16);
  EXPECT_EQ(tensor({{1, 2}}, DType::f64).dtype(), DType::f64);
  const std::vector<std::int64_t> shape{2, 3};
  EXPECT_EQ(zeros(shape).shape(), (Shape{2, 3}));
  EXPECT_EQ(zeros(shape).view(shape).reshape({3, 2}).shape(), (Shape{3, 2}));
}

TEST(Factories, NestedLists) {
  const Tensor x = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
  EXPECT_EQ(x.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(x.dtype(), DType::i64);
  EXPECT_EQ((x[{1, 0, 1}].item()), 6);
  EXPECT_EQ(tensor({{1, 2.5}}).dtype(), DType::f32);
  EXPECT_EQ(tensor({{true, false}}).dtype(), DType::boolean);
  EXPECT_EQ(tensor({{true, 2}}).dtype(), DType::i64);
  EXPECT_EQ(tensor({{1}}).shape(), (Shape{1, 1}));
  EXPECT_EQ(tensor({{std::int64_t{1} << 62U}}).item<std::int64_t>(), std::int64_t{1} << 62U);
  EXPECT_THROW(static_cast<void>(tensor({{1, 2}, {3}})), ShapeError);
  EXPECT_THROW(static_cast<void>(tensor({{{1}, {2}}, {{3}}})), ShapeError);
}

TEST(Factories, FromSpanSharesMemory) {
  std::vector<float> memory{1, 2, 3, 4};
  {
    const Tensor x = from_span(std::span(memory), {2, 2});
    x += 1;
    EXPECT_EQ(memory[3], 5);
    memory[0] = 10;
    EXPECT_TRUE(equal(x, tensor({{10.0, 3}, {4.0, 5}})));
    const Tensor y = (x.requires_grad_() * 2).sum();
    y.backward();
    EXPECT_TRUE(equal(x.grad(), full({2, 2}, 2)));
  }
  EXPECT_EQ(memory[3], 5);  // not freed
  EXPECT_THROW(static_cast<void>(from_span(std::span(memory), {3})), ShapeError);
}

TEST(Functions, TakeNumbersAlone) {
  const Tensor mask = tensor({true, false});
  EXPECT_TRUE(equal(where(mask, 0.5, 2), tensor({0.5, 2.0})));
  EXPECT_EQ(where(mask, 1, 2).dtype(), DType::i64);
  EXPECT_EQ(where(mask, true, false).dtype(), DType::boolean);
  EXPECT_TRUE(equal(tensor({5, -5}) % 3, tensor({2, 1})));
  EXPECT_TRUE(equal(tensor({5.5}) % tensor({2.0}), tensor({1.5})));
  EXPECT_TRUE(equal(clamp_min(tensor({-1.0, 2.0}), 0), tensor({0.0, 2.0})));
  EXPECT_TRUE(equal(clamp_max(tensor({-1.0, 2.0}), 0), tensor({-1.0, 0.0})));
}

TEST(Compare, EqualAndClose) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  EXPECT_TRUE(equal(tensor({1, 2}), tensor({1.0, 2.0})));
  EXPECT_FALSE(equal(tensor({1, 2}), tensor({1, 3})));
  EXPECT_FALSE(equal(ones({2}), ones({1, 2})));
  EXPECT_FALSE(equal(tensor({nan}), tensor({nan})));
  EXPECT_TRUE(allclose(tensor({1.0, inf, -inf}), tensor({1.000001, inf, -inf})));
  EXPECT_FALSE(allclose(tensor({1.0}), tensor({1.0001})));
  EXPECT_TRUE(allclose(tensor({1.0}), tensor({1.0001}), 1e-3));
  EXPECT_FALSE(allclose(tensor({1.0}), tensor({inf})));
  EXPECT_FALSE(allclose(tensor({inf}), tensor({-inf})));
  EXPECT_FALSE(allclose(tensor({nan}), tensor({nan})));
  EXPECT_TRUE(allclose(tensor({nan}), tensor({nan}), 0, 0, true));
  EXPECT_TRUE(allclose(ones({3}), ones({2, 3})));
  const std::int64_t large = std::int64_t{1} << 40U;
  EXPECT_FALSE(allclose(tensor({large}), tensor({large + 1}), 0, 0));
  EXPECT_TRUE(equal(isclose(tensor({1.0, 2.0}), tensor({1.0, 3.0})), tensor({true, false})));
  EXPECT_THROW(static_cast<void>(allclose(ones({2}), ones({2}), -1)), ValueError);
  EXPECT_THROW(static_cast<void>(allclose(ones({2}), ones({3}))), ShapeError);
  EXPECT_THROW(static_cast<void>(equal(ones({2}), Tensor())), ValueError);
}

TEST(Compare, Operators) {
  const Tensor a = tensor({1, 2, 3}), b = tensor({3, 2, 1});
  EXPECT_TRUE(equal(a == b, tensor({false, true, false})));
  EXPECT_TRUE(equal(a != b, tensor({true, false, true})));
  EXPECT_TRUE(equal(a < b, tensor({true, false, false})));
  EXPECT_TRUE(equal(a <= 2, tensor({true, true, false})));
  EXPECT_TRUE(equal(a > b, tensor({false, false, true})));
  EXPECT_TRUE(equal(a >= 2, tensor({false, true, true})));
  EXPECT_TRUE(equal(2 < a, tensor({false, false, true})));
  EXPECT_TRUE(equal(2 >= a, tensor({true, true, false})));
  EXPECT_TRUE(equal(2 == a, a == 2));
  EXPECT_TRUE(equal(2 != a, a != 2));
  EXPECT_TRUE(equal(2 > a, a < 2));
  EXPECT_TRUE(equal(2 <= a, a >= 2));
}

TEST(Losses, TakeTheReductionBehindTheTarget) {
  const Tensor x = tensor({{0.2, 0.7}, {0.9, 0.1}}), t = tensor({0, 1}), p = tensor({{1.0, 0}, {1.0, 1}});
  const Tensor sign = tensor({1.0, -1.0});
  const auto sums = [](const Tensor& sum, const Tensor& none) {
    EXPECT_EQ(none.dim() > 0, true);
    EXPECT_TRUE(allclose(sum, none.sum()));
  };
  sums(cross_entropy(x, t, Reduction::sum), cross_entropy(x, t, Reduction::none));
  sums(nll_loss(x, t, Reduction::sum), nll_loss(x, t, Reduction::none));
  sums(binary_cross_entropy(x, p, Reduction::sum), binary_cross_entropy(x, p, Reduction::none));
  sums(binary_cross_entropy_with_logits(x, p, Reduction::sum),
       binary_cross_entropy_with_logits(x, p, Reduction::none));
  sums(hinge_embedding_loss(x, p * 2 - 1, Reduction::sum),
       hinge_embedding_loss(x, p * 2 - 1, Reduction::none));
  sums(margin_ranking_loss(x, p, p * 2 - 1, Reduction::sum),
       margin_ranking_loss(x, p, p * 2 - 1, Reduction::none));
  sums(poisson_nll_loss(x, p, Reduction::sum), poisson_nll_loss(x, p, Reduction::none));
  sums(cosine_embedding_loss(x, p, sign, Reduction::sum), cosine_embedding_loss(x, p, sign, Reduction::none));
  sums(triplet_margin_loss(x, p, p * 0, Reduction::sum), triplet_margin_loss(x, p, p * 0, Reduction::none));
  sums(multi_margin_loss(x, t, Reduction::sum), multi_margin_loss(x, t, Reduction::none));
}

TEST(Pools, TakeASizeAlone) {
  const Tensor x = randn({1, 2, 8, 8});
  EXPECT_TRUE(equal(max_pool2d(x, 2), max_pool2d(x, {.kernel_size = 2})));
  EXPECT_TRUE(equal(max_pool2d(x, 3, 2, 1), max_pool2d(x, {.kernel_size = 3, .stride = 2, .padding = 1})));
  EXPECT_TRUE(equal(avg_pool2d(x, 2), avg_pool2d(x, {.kernel_size = 2})));
  EXPECT_TRUE(equal(max_pool1d(x[0], 2, 1), max_pool1d(x[0], {.kernel_size = 2, .stride = 1})));
  EXPECT_TRUE(equal(avg_pool1d(x[0], 2), avg_pool1d(x[0], {.kernel_size = 2})));
  EXPECT_TRUE(equal(max_pool3d(x, 2), max_pool3d(x, {.kernel_size = 2})));
  EXPECT_TRUE(equal(avg_pool3d(x, 2), avg_pool3d(x, {.kernel_size = 2})));
}

TEST(AutocastForms, ByDTypeOrTypeOfDevice) {
  {
    const amp::Autocast autocast(DType::f16);
    EXPECT_TRUE(amp::is_autocast_enabled(DeviceType::cpu));
    EXPECT_TRUE(amp::is_autocast_enabled(DeviceType::cuda));
    EXPECT_EQ(amp::autocast_dtype(DeviceType::cuda), DType::f16);
    EXPECT_EQ(matmul(ones({2, 2}), ones({2, 2})).dtype(), DType::f16);
    const amp::Autocast inner(DeviceType::cpu, {}, {.enabled = false});
    EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cpu));
    EXPECT_TRUE(amp::is_autocast_enabled(DeviceType::cuda));
  }
  EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cuda));
  {
    // Nothing is cast, so the device need not be there.
    const amp::Autocast off(Device::cuda(63), {}, {.enabled = false});
    EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cuda));
  }
  EXPECT_THROW(static_cast<void>(amp::Autocast(Device::cuda(63))), DeviceError);
  EXPECT_THROW(static_cast<void>(amp::Autocast(DType::i64)), ValueError);
  EXPECT_FALSE(amp::is_autocast_enabled(DeviceType::cuda));
}

TEST(ScalerForms, ADisabledOnePassesAClosureOn) {
  const Tensor p = ones({1}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 0.5});
  amp::GradScaler off({.enabled = false}), on;
  const auto closure = [&] {
    sgd.zero_grad();
    Tensor loss = (p * 2).sum();
    loss.backward();
    return loss;
  };
  EXPECT_FALSE(off.step(sgd, closure).skipped());
  EXPECT_EQ(p.item(), 0);
  EXPECT_THROW(static_cast<void>(on.step(sgd, closure)), StateError);
}

TEST(OptimizerForms, TakeAModule) {
  nn::Sequential net{nn::Linear(2, 3), nn::LayerNorm(3), nn::Linear(3, 1)};
  optim::AdamW optimizer(net, {.lr = 0.25});
  EXPECT_EQ(optimizer.parameter_name(2), "1.weight");
  EXPECT_EQ(optimizer.lr(), 0.25);
  optim::AdamW groups(optim::decay_groups(net, optim::AdamWOptions{.lr = 0.5, .weight_decay = 0.1}));
  ASSERT_EQ(groups.num_groups(), 2U);
  EXPECT_EQ(groups.options(0).weight_decay, 0.1);
  EXPECT_EQ(groups.options(1).weight_decay, 0);
  EXPECT_EQ(groups.options(1).lr, 0.5);
  EXPECT_EQ(groups.parameter_name(0), "0.weight");
  EXPECT_EQ(groups.parameter_name(1), "2.weight");
  EXPECT_EQ(groups.parameter_name(2), "0.bias");
  EXPECT_EQ(groups.parameters().size(), 6U);
  // A norm over two dims has a matrix as its weight, and is none.
  nn::Sequential norm{nn::LayerNorm(Shape{2, 3}), nn::ReLU()};
  EXPECT_EQ(optim::decay_groups(norm, optim::SGDOptions{.lr = 1, .weight_decay = 1}).size(), 1U);
}

TEST(Values, AreIndexedByKeyAndPosition) {
  const Value value = Value::Map{{"a", Value::list(1, Value::Map{{"b", 2.5}})}};
  EXPECT_EQ(value["a"][1]["b"].as_double(), 2.5);
  EXPECT_THROW(static_cast<void>(value["c"]), ValueError);
  EXPECT_THROW(static_cast<void>(value["a"][2]), IndexError);
}

}  // namespace
}  // namespace mezzo
