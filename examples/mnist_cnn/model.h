// The network of mnist_cnn.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "mezzo/mezzo.h"

namespace models {

/// Two convolutions with GroupNorm, ReLU and pooling, and a linear layer: images [N, 1, 28, 28] to scores
/// [N, 10].
inline std::shared_ptr<mezzo::nn::Sequential> conv_net() {
  namespace nn = mezzo::nn;
  auto net = nn::make<nn::Sequential>();
  for (const auto& [in, out] : {std::pair{1, 16}, {16, 32}}) {
    net->push_back(nn::Conv2d(in, out, 3, {.padding = 1}));
    net->push_back(nn::GroupNorm(4, out));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(32 * 7 * 7, 10));
  return net;
}

}  // namespace models
