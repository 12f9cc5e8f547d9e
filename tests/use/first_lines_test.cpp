// What somebody who knows LibTorch writes first: each test begins with LibTorch's line, and the line below it
// is mezzo's.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

const Tensor kX = tensor({{1.0, -2.0, 3.0}, {-4.0, 5.0, -6.0}});

TEST(FirstLines, MakeTensors) {
  // torch::zeros({2, 3})
  EXPECT_EQ(zeros({2, 3}).numel(), 6);
  // torch::ones({2, 3}, torch::kHalf)
  EXPECT_EQ(ones({2, 3}, DType::f16).dtype(), DType::f16);
  // torch::full({2}, 0.5, torch::TensorOptions().dtype(torch::kDouble).requires_grad(true))
  EXPECT_TRUE(full({2}, 0.5, {.dtype = DType::f64, .requires_grad = true}).requires_grad());
  // torch::tensor({{1, 2}, {3, 4}})
  EXPECT_EQ(tensor({{1, 2}, {3, 4}}).dtype(), DType::i64);
  // torch::arange(0, 10, 2)
  EXPECT_TRUE(equal(arange(0, 10, 2), tensor({0, 2, 4, 6, 8})));
  // torch::arange(1, 4, torch::kFloat)
  EXPECT_TRUE(equal(arange(1, 4, DType::f32), tensor({1.0, 2.0, 3.0})));
  // torch::eye(2)
  EXPECT_TRUE(equal(eye(2), tensor({{1.0, 0.0}, {0.0, 1.0}})));
  // torch::manual_seed(1); torch::randn({2, 3}); torch::rand({2}); torch::randint(0, 5, {4})
  manual_seed(1);
  EXPECT_EQ(randn({2, 3}).dim() + rand({2}).dim() + randint(0, 5, {4}).dim(), 4);
  // torch::zeros_like(x), torch::randn_like(x)
  EXPECT_EQ(zeros_like(kX).shape(), randn_like(kX).shape());
  // torch::from_blob(values.data(), {2, 2})
  std::vector<float> values{1, 2, 3, 4};
  EXPECT_EQ(from_span(std::span(values), {2, 2})[1][0].item(), 3);
}

TEST(FirstLines, LookAtThem) {
  // x.sizes(), x.size(-1), x.dim(), x.numel()
  EXPECT_EQ(kX.shape(), (Shape{2, 3}));
  EXPECT_EQ(kX.size(-1) + kX.dim() + kX.numel(), 11);
  // x.sum().item<double>()
  EXPECT_EQ(kX.sum().item<double>(), -3);
  // x[0][1].item<float>()
  EXPECT_EQ(kX[0][1].item<float>(), -2);
  // std::cout << x
  std::ostringstream out;
  out << kX[0];
  EXPECT_EQ(out.str(), "tensor([ 1., -2.,  3.], shape=[3], dtype=f32)");
  // torch::allclose(x, y)
  EXPECT_TRUE(allclose(kX, kX + 1e-9));
}

TEST(FirstLines, IndexAndShape) {
  // x.index({0, Slice(1, None)})
  EXPECT_TRUE(equal(kX[{0, Slice(1)}], tensor({-2.0, 3.0})));
  // x.index({"...", 0})
  EXPECT_TRUE(equal(kX[{Ellipsis, 0}], tensor({1.0, -4.0})));
  // x.index_put_({0}, 7)
  const Tensor y = kX.clone();
  y[0] = 7;
  EXPECT_EQ(y[0].sum().item(), 21);
  // x.index({x > 0})
  EXPECT_TRUE(equal(kX[kX > 0], tensor({1.0, 3.0, 5.0})));
  // x.view({-1}), x.reshape({3, -1}), x.transpose(0, 1), x.permute({1, 0}), x.t()
  EXPECT_EQ(kX.view({-1}).size(0) + kX.reshape({3, -1}).size(1), 8);
  EXPECT_TRUE(equal(kX.transpose(0, 1), kX.permute({1, 0})));
  EXPECT_TRUE(equal(kX.t(), kX.transpose(0, 1).contiguous()));
  // x.unsqueeze(0).expand({4, 2, 3}), x.squeeze()
  EXPECT_EQ(kX.unsqueeze(0).expand({4, 2, 3}).numel(), 24);
  // torch::cat({a, b}, 1), torch::stack({a, b}), x.chunk(3, 1), x.split(2, 1)
  EXPECT_EQ(cat({kX, kX}, 1).size(1) + stack({kX, kX}).dim(), 9);
  EXPECT_EQ(kX.chunk(3, 1).size() + kX.split(2, 1).size(), 5U);
  // torch::flip(x, {1}), torch::roll(x, 1, 1), torch::tril(x)
  EXPECT_EQ(flip(kX, {1})[0][0].item() + roll(kX, 1, 1)[0][0].item() + tril(kX)[0][1].item(), 6);
}

TEST(FirstLines, Compute) {
  // torch::matmul(a, b), a.mm(b)
  EXPECT_TRUE(equal(matmul(kX, kX.t()), kX.mm(kX.t())));
  // 2 * x - x / 2 + x.pow(2)
  EXPECT_EQ((2 * kX - kX / 2 + kX.pow(2))[0][0].item(), 2.5);
  // x.mean(1), x.sum({0, 1}), x.std(), x.norm()
  EXPECT_EQ(kX.mean(1).size(0), 2);
  EXPECT_NEAR(kX.norm().item() + kX.std().item(), std::sqrt(91.0) + std::sqrt(17.9), 1e-5);
  // std::get<1>(torch::max(x, 1))
  EXPECT_TRUE(equal(max(kX, 1).indices, tensor({2, 1})));
  // auto [values, indices] = x.topk(2, 1)
  const auto [values, indices] = kX.topk(2, 1);
  EXPECT_TRUE(equal(values, tensor({{3.0, 1.0}, {5.0, -4.0}})));
  // torch::where(x > 0, x, 0)
  EXPECT_TRUE(equal(where(kX > 0, kX, 0), relu(kX)));
  // x.masked_fill(x < 0, 0)
  EXPECT_TRUE(equal(kX.masked_fill(kX < 0, 0), relu(kX)));
  // x.eq(y).sum().item<int64_t>()
  EXPECT_EQ((kX == kX).sum().item<std::int64_t>(), 6);
  // x.gather(1, index), x.scatter(1, index, src), x.index_select(0, index)
  EXPECT_EQ(kX.gather(1, tensor({{2}, {1}})).sum().item(), 8);
  // torch::einsum("ij,kj->ik", {x, x})
  EXPECT_TRUE(allclose(einsum("ij,kj->ik", {kX, kX}), matmul(kX, kX.t())));
  // x.to(torch::kBFloat16), x.to(torch::kCPU)
  EXPECT_EQ(kX.to(DType::bf16).to(Device::cpu()).dtype(), DType::bf16);
  // x.add_(1).mul_(2).clamp_(-1, 1)
  EXPECT_EQ(kX.clone().add_(1).mul_(2).clamp_(-1, 1).sum().item(), 0);
}

TEST(FirstLines, Differentiate) {
  // auto x = torch::tensor({3.0}, torch::requires_grad()); (x * x).backward(); x.grad()
  const Tensor x = tensor({3.0}, {.requires_grad = true});
  (x * x).backward();
  EXPECT_EQ(x.grad().item(), 6);
  // x.mutable_grad().reset()
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  // torch::autograd::grad({x * x * x}, {x}, {}, true, true)
  const Tensor first = grad({x * x * x}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(grad(first, x)[0].item(), 18);
  // torch::NoGradGuard no_grad;
  {
    const NoGrad no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
  }
  // c10::InferenceMode guard;
  {
    const InferenceMode guard;
    EXPECT_TRUE((x * 2).is_inference());
  }
  // x.detach(), x.register_hook([](torch::Tensor g) { return g * 2; })
  x.register_hook([](const Tensor& gradient) { return gradient * 2; });
  (x * x.detach()).backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(FirstLines, CallFunctions) {
  namespace F = mezzo;  // torch::nn::functional
  const Tensor image = randn({2, 3, 8, 8}), target = tensor({0, 2});
  // F::relu(x), F::gelu(x), F::softmax(x, -1), F::log_softmax(x, 1)
  EXPECT_NEAR(F::softmax(kX, -1).sum().item() + F::log_softmax(kX, 1).exp().sum().item(), 4, 1e-5);
  // F::max_pool2d(x, 2), F::avg_pool2d(x, 2), F::adaptive_avg_pool2d(x, 1)
  EXPECT_EQ(F::max_pool2d(image, 2).size(-1) + F::adaptive_avg_pool2d(image, 1).size(-1), 5);
  // F::conv2d(x, w, F::Conv2dFuncOptions().padding(1))
  EXPECT_EQ(F::conv2d(image, randn({4, 3, 3, 3}), {}, {.padding = 1}).shape(), (Shape{2, 4, 8, 8}));
  // F::cross_entropy(x, target), F::cross_entropy(x, target, ...reduction(torch::kSum))
  EXPECT_NEAR(F::cross_entropy(kX, target).item() * 2, F::cross_entropy(kX, target, Reduction::sum).item(),
              1e-5);
  // F::mse_loss(x, y), F::binary_cross_entropy_with_logits(x, y)
  EXPECT_EQ(F::mse_loss(kX, kX).item(), 0);
  // F::dropout(x, F::DropoutFuncOptions().p(0.5).training(false))
  EXPECT_TRUE(F::dropout(kX, 0.5, false).is_same(kX));
  // F::layer_norm(x, {3}), F::normalize(x), F::one_hot(target, 3), F::pad(x, {1, 1})
  EXPECT_EQ(
      F::layer_norm(kX, {3}).numel() + F::one_hot(target, 3).sum().item<int>() + F::pad(kX, {1, 1}).size(1),
      13);
  // F::interpolate(x, F::InterpolateFuncOptions().scale_factor(2).mode(torch::kBilinear))
  EXPECT_EQ(F::interpolate(image, {.scale_factor = 2, .mode = InterpolateMode::bilinear}).size(-1), 16);
  // torch::scaled_dot_product_attention(q, k, v, {}, 0, true)
  const Tensor q = randn({2, 4, 5, 8});
  EXPECT_EQ(F::scaled_dot_product_attention(q, q, q, {.is_causal = true}).shape(), q.shape());
}

/// struct Net : torch::nn::Module { torch::nn::Linear fc1{nullptr}; Net() { fc1 = register_module(...); } };
struct Net final : nn::Layer {
  nn::Child<nn::Linear> fc1{*this, "fc1", nn::Linear(3, 8)}, fc2{*this, "fc2", nn::Linear(8, 2)};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

TEST(FirstLines, BuildModels) {
  // auto net = torch::nn::Sequential(torch::nn::Linear(3, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  nn::Sequential net{nn::Linear(3, 8), nn::ReLU(), nn::Linear(8, 2)};
  // net->forward(x)
  EXPECT_EQ(net(kX).shape(), (Shape{2, 2}));
  // torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).stride(2).padding(1).bias(false))
  nn::Conv2d conv(3, 8, 3, {.stride = 2, .padding = 1, .bias = false});
  EXPECT_EQ(conv(randn({1, 3, 8, 8})).shape(), (Shape{1, 8, 4, 4}));
  // auto lstm = torch::nn::LSTM(torch::nn::LSTMOptions(3, 4).num_layers(2).batch_first(true))
  nn::LSTM lstm(3, 4, {.num_layers = 2, .batch_first = true});
  EXPECT_EQ(lstm(randn({2, 5, 3})).output.shape(), (Shape{2, 5, 4}));
  // auto embedding = torch::nn::Embedding(10, 3)
  EXPECT_EQ(nn::Embedding(10, 3)(tensor({1, 2})).shape(), (Shape{2, 3}));
  // Net net; for (auto& p : net->named_parameters()) p.key(), p.value()
  Net own;
  std::string names;
  for (const auto& [name, value] : own.named_parameters()) names += name + " ";
  EXPECT_EQ(names, "fc1.weight fc1.bias fc2.weight fc2.bias ");
  // net->train(), net->eval(), net->is_training(), net->to(torch::kDouble), net->zero_grad()
  EXPECT_FALSE(own.eval().is_training());
  own.to(DType::f64).zero_grad();
  // std::cout << net
  std::ostringstream out;
  out << own;
  EXPECT_EQ(out.str().substr(0, 4), "Net(");
}

TEST(FirstLines, PrintWhatATensorIs) {
  const Tensor x = zeros({2, 3}, DType::bf16);
  std::ostringstream out;
  // std::cout << x.sizes() << x.dtype() << x.device() << x.strides()
  out << x.shape() << " " << x.dtype() << " " << x.device() << " " << x.strides();
  EXPECT_EQ(out.str(), "[2, 3] bf16 cpu [3, 1]");
}

TEST(FirstLines, Train) {
  manual_seed(0);
  Net net;
  const Tensor target = tensor({0, 1});
  // torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  // torch::optim::StepLR scheduler(optimizer, 50, 0.5);
  optim::StepLR scheduler(optimizer, {.step_size = 50, .gamma = 0.5});
  // torch.amp.GradScaler(), which LibTorch has not
  amp::GradScaler scaler;
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    // optimizer.zero_grad(); loss.backward(); optimizer.step();
    optimizer.zero_grad();
    Tensor loss;
    {
      // at::autocast::set_autocast_enabled(...), which has no guard
      const amp::Autocast autocast(DType::f16);
      loss = cross_entropy(net(kX), target);
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    // torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0)
    static_cast<void>(optim::clip_grad_norm_(net.parameters(), 1.0));
    const auto outcome = scaler.step(optimizer);
    scaler.update();
    scheduler.step(outcome);
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, first / 2);
  EXPECT_NEAR(optimizer.lr(), 5e-3, 1e-9);
}

TEST(FirstLines, Save) {
  const std::string path = ::testing::TempDir() + "mezzo_first_lines.safetensors";
  Net net, other;
  // torch::save(net, "net.pt")
  io::save(net.state_dict(), path);
  // torch::load(other, "net.pt")
  other.load_state_dict(io::load(path));
  EXPECT_TRUE(equal(net(kX), other(kX)));
}

}  // namespace
}  // namespace mezzo
