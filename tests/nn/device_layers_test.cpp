// Layers on the device at hand: moved there they give what they give on the CPU, and so do gradients and
// running statistics. In f64, where the order of sums hardly shows.
#include "mezzo/nn/activation.h"
#include "mezzo/nn/bilinear.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/lora.h"
#include "mezzo/nn/norm.h"
#include "mezzo/nn/pooling.h"
#include "mezzo/nn/reshape.h"
#include "mezzo/nn/residual.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/ops/ops.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn {

namespace {

using namespace nn::testing;

void expect_near(const Tensor& on_device, const Tensor& on_cpu) {
  ASSERT_EQ(on_device.shape(), on_cpu.shape());
  const auto got = on_device.to_vector<double>(), wanted = on_cpu.to_vector<double>();
  // Sums of up to some hundred products of numbers below 10.
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-11) << i;
}

/// Runs a layer with its clone on the device.
template <class L>
void expect_same_there(L&& layer, const Shape& shape) {
  const Device device = Device::best();
  layer.to(DType::f64);
  const auto moved = clone(layer);
  moved->to(device);
  const Tensor x = randn(shape, {.dtype = DType::f64});
  const Tensor here = layer(x), there = (*moved)(x.to(device));
  SCOPED_TRACE(to_string(layer));
  EXPECT_EQ(there.device(), device);
  expect_near(there, here);
  if (!layer.parameters().empty()) {
    sum(mul(here, here)).backward();
    sum(mul(there, there)).backward();
  }
  const auto wanted = layer.parameters(), got = moved->parameters();
  for (std::size_t i = 0; i < wanted.size(); ++i) expect_near(got[i].grad(), wanted[i].grad());
  const auto state = layer.state_dict(), state_there = moved->state_dict();
  for (std::size_t i = 0; i < state.size(); ++i) expect_near(state_there[i].second, state[i].second);
}

TEST(Device, ConvolutionsAndPoolings) {
  manual_seed(4);
  expect_same_there(Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}), {2, 4, 9});
  expect_same_there(Conv2d(2, 3, {3, 2}, {.padding = {2, 1}, .padding_mode = PadMode::reflect}),
                    {1, 2, 6, 5});
  expect_same_there(Conv3d(1, 2, {1, 2, 3}, {.padding = "same", .padding_mode = PadMode::circular}),
                    {1, 1, 3, 3, 4});
  expect_same_there(ConvTranspose2d(4, 2, 3, {.stride = 2, .output_padding = 1, .groups = 2}), {2, 4, 3, 4});
  expect_same_there(MaxPool2d(3, {.stride = 2, .padding = 1}), {2, 3, 7, 8});
  expect_same_there(AvgPool1d(3, {.padding = 1, .count_include_pad = false}), {2, 3, 8});
  expect_same_there(AdaptiveAvgPool2d({2, 3}), {2, 3, 7, 8});
  expect_same_there(AdaptiveMaxPool3d(2), {2, 3, 4, 5});
}

TEST(Device, NormsAndTheirStatistics) {
  manual_seed(5);
  expect_same_there(LayerNorm({3, 4}), {5, 3, 4});
  expect_same_there(RMSNorm(7), {5, 7});
  expect_same_there(GroupNorm(2, 4), {3, 4, 5});
  expect_same_there(BatchNorm1d(3), {5, 3});
  expect_same_there(BatchNorm2d(3, {.momentum = {}}), {2, 3, 4, 3});
  expect_same_there(InstanceNorm2d(3, {.affine = true, .track_running_stats = true}), {3, 4, 3});
}

TEST(Device, ModelsOfManyLayers) {
  manual_seed(6);
  expect_same_there(
      Sequential{
          make<Conv2d>(2, 4, 3, ConvLayerOptions{.padding = 1}),
          make<Residual>(make<Sequential>(make<BatchNorm2d>(4), make<PReLU>(4), make<Conv2d>(4, 4, 1))),
          make<Flatten>(), make<Unflatten>(1, Shape{4, -1}), make<Identity>(), make<Linear>(16, 3)},
      {2, 2, 4, 4});
}

TEST(Device, ChannelDropoutDrawsTheSameNumbers) {
  Generator here(3), there(3);
  Dropout2d one(0.5, &here), other(0.5, &there);
  const Tensor x = counting({8, 4, 2, 2});
  EXPECT_EQ(values(other(x.to(Device::best()))), values(one(x)));
}

TEST(Device, BilinearAndLayersMadeThere) {
  const Device device = Device::best();
  Generator here(3), there(3);
  Bilinear one(2, 3, 4, {.dtype = DType::f64, .generator = &here});
  Bilinear other(2, 3, 4, {.dtype = DType::f64, .device = device, .generator = &there});
  expect_near(other.weight, one.weight);
  const Tensor a = counting({5, 2}).to(DType::f64), b = counting({5, 3}).to(DType::f64);
  expect_near(other(a.to(device), b.to(device)), one(a, b));
  EXPECT_EQ(Conv2d(2, 3, 3, {.device = device}).bias->device(), device);
  const BatchNorm2d norm(3, {.device = device});
  for (const auto& [name, tensor] : norm.state_dict()) EXPECT_EQ(tensor.device(), device) << name;
}

TEST(Device, Adapters) {
  manual_seed(8);
  Sequential net(Conv2d(2, 3, 3, {.stride = 2, .padding = 1}), Flatten(), Linear(12, 5));
  apply_lora(net, {.rank = 2, .alpha = 2, .targets = {"0", "2"}});
  net.requires_grad_();
  for (const auto& [name, tensor] : lora_state_dict(net)) init::normal_(tensor, 0, 0.2);
  expect_same_there(net, {2, 2, 4, 4});
  merge_lora(net);
  const auto moved = clone(net);
  moved->to(Device::best());
  unmerge_lora(*moved);
  const Tensor x = randn({2, 2, 4, 4}, {.dtype = DType::f64});
  expect_near((*moved)(x.to(Device::best())), net(x));
}

}  // namespace

}  // namespace mezzo::nn
