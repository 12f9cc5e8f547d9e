// time_series: LSTM cells learn sine waves, and go on with them alone.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

struct Sequence final : nn::Module {
  nn::Child<nn::LSTMCell> lstm1{*this, "lstm1", nn::LSTMCell(1, 16)};
  nn::Child<nn::LSTMCell> lstm2{*this, "lstm2", nn::LSTMCell(16, 16)};
  nn::Child<nn::Linear> linear{*this, "linear", nn::Linear(16, 1)};

  Tensor forward(const Tensor& input, int future = 0) {
    std::vector<Tensor> outputs;
    LstmState state1, state2;
    const auto next = [&](const Tensor& x) {
      state1 = lstm1(x, state1);
      state2 = lstm2(state1.h, state2);
      outputs.push_back(linear(state2.h));
    };
    for (const Tensor& x : input.split(1, 1)) next(x);
    for (int i = 0; i < future; ++i) next(outputs.back());
    return cat(outputs, 1);
  }
};

// Waves of one frequency that begin anywhere.
Tensor waves(int count, int length) {
  const Tensor start = twin::rand({count, 1}) * 80;
  return sin((arange(length).to(DType::f16) + start) / 4);
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 40});
  const Tensor data = waves(15, 41).to(args.device);
  const Tensor input = data[{Slice(3), Slice(None, -1)}], target = data[{Slice(3), Slice(1)}];
  const Tensor test_input = data[{Slice(None, 3), Slice(None, 20)}],
               test_target = data[{Slice(None, 3), Slice(1)}];
  Sequence sequence;
  twin::init(sequence);
  sequence.to(args.device);
  nn::MSELoss criterion;
  optim::Adam optimizer(sequence, {.lr = 1e-2});
  for (int step = 0; step < args.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = criterion(call(sequence, input), target);
    loss.backward();
    optimizer.step();
    if (step % 2 == 0) std::printf("step %d loss %.6g\n", step, loss.item());
  }
  NoGrad no_grad;
  const Tensor prediction = call(sequence, test_input, 20);
  std::printf("test loss %.6g\n", criterion(prediction, test_target).item());
}
