// The networks of the layer `models`, as peers/pytorch_models.py has them. Most are those of the examples.
#pragma once

#include <memory>

#include "cases/library.h"
#include "mezzo/examples/char_gpt/model.h"
#include "mezzo/examples/cifar_resnet/model.h"
#include "mezzo/examples/mnist_cnn/model.h"

namespace bench {

using models::Block;
using models::conv_net;
using models::Gpt;
using models::GptSizes;
using models::resnet18;

/// The last step of an LSTM over [T, N, 64], and a linear layer.
struct LstmNet final : nn::Layer {
  LstmNet() : lstm(*this, "lstm", nn::LSTM(64, 256)), head(*this, "head", nn::Linear(256, 10)) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override {
    return head(select(lstm->forward(x).output, 0, x.size(0) - 1));
  }

  nn::Child<nn::LSTM> lstm;
  nn::Child<nn::Linear> head;
};

/// All steps of an LSTM over [T, N, 128].
struct SequenceLstm final : nn::Layer {
  SequenceLstm() : lstm(*this, "lstm", nn::LSTM(128, 128)) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override { return lstm->forward(x).output; }

  nn::Child<nn::LSTM> lstm;
};

}  // namespace bench
