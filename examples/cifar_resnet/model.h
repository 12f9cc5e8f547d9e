// The networks of cifar_resnet, for images [N, 3, 32, 32] of ten classes.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/mezzo.h"

namespace models {

/// Two convolutions with batch norm beside a shortcut.
struct ResidualBlock final : mezzo::nn::Layer {
  ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv_1(*this, "conv_1",
               mezzo::nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false})),
        norm_1(*this, "norm_1", mezzo::nn::BatchNorm2d(out)),
        conv_2(*this, "conv_2", mezzo::nn::Conv2d(out, out, 3, {.padding = 1, .bias = false})),
        norm_2(*this, "norm_2", mezzo::nn::BatchNorm2d(out)),
        shortcut(*this, "shortcut", mezzo::nn::Sequential()) {
    if (stride == 1 && in == out) return;
    shortcut->push_back(mezzo::nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}));
    shortcut->push_back(mezzo::nn::BatchNorm2d(out));
  }

  [[nodiscard]] mezzo::Tensor forward(const mezzo::Tensor& x) override {
    return relu(norm_2(conv_2(relu(norm_1(conv_1(x))))) + shortcut(x));
  }

  mezzo::nn::Child<mezzo::nn::Conv2d> conv_1;
  mezzo::nn::Child<mezzo::nn::BatchNorm2d> norm_1;
  mezzo::nn::Child<mezzo::nn::Conv2d> conv_2;
  mezzo::nn::Child<mezzo::nn::BatchNorm2d> norm_2;
  mezzo::nn::Child<mezzo::nn::Sequential> shortcut;
};

/// ResNet-18 with a 3 x 3 stem without pooling; its stages have `width`, 2, 4 and 8 times `width` channels.
inline std::shared_ptr<mezzo::nn::Sequential> resnet18(std::int64_t width = 64) {
  namespace nn = mezzo::nn;
  auto net = nn::make<nn::Sequential>();
  net->push_back(nn::Conv2d(3, width, 3, {.padding = 1, .bias = false}));
  net->push_back(nn::BatchNorm2d(width));
  net->push_back(nn::ReLU());
  std::int64_t in = width;
  for (const std::int64_t out : {width, 2 * width, 4 * width, 8 * width}) {
    net->push_back(nn::make<ResidualBlock>(in, out, out == width ? 1 : 2));
    net->push_back(nn::make<ResidualBlock>(out, out, 1));
    in = out;
  }
  net->push_back(nn::AdaptiveAvgPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(8 * width, 10));
  return net;
}

/// ResNet-9: four convolutions with batch norm, of `width`, 2, 4 and 8 times `width` channels, the last three
/// followed by pooling, and a residual block behind the second and the fourth. Source: Page, "How to train
/// your ResNet", 2018 (DAWNBench).
inline std::shared_ptr<mezzo::nn::Sequential> resnet9(std::int64_t width = 64) {
  namespace nn = mezzo::nn;
  auto net = nn::make<nn::Sequential>();
  std::int64_t in = 3;
  for (const std::int64_t out : {width, 2 * width, 4 * width, 8 * width}) {
    net->push_back(nn::Conv2d(in, out, 3, {.padding = 1, .bias = false}));
    net->push_back(nn::BatchNorm2d(out));
    net->push_back(nn::ReLU());
    if (out != width) net->push_back(nn::MaxPool2d(2));
    if (out == 2 * width || out == 8 * width) net->push_back(nn::make<ResidualBlock>(out, out, 1));
    in = out;
  }
  net->push_back(nn::AdaptiveMaxPool2d(1));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(8 * width, 10));
  return net;
}

}  // namespace models
