// siamese: two pictures through one net, which learns whether they show the same digit.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

struct SiameseNetwork final : nn::Module {
  nn::Child<nn::Sequential> cnn{
      *this, "cnn",
      nn::Sequential{nn::Conv2d(1, 8, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(8, 16, 5), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Flatten()}};
  nn::Child<nn::Sequential> fc{
      *this, "fc", nn::Sequential{nn::Linear(512, 64), nn::ReLU(), nn::Linear(64, 1), nn::Sigmoid()}};

  Tensor forward(const Tensor& input1, const Tensor& input2) {
    const Tensor output1 = cnn(input1);
    const Tensor output2 = cnn(input2);
    return fc(cat({output1, output2}, 1)).squeeze(1);
  }
};

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 60});
  SiameseNetwork model;
  twin::init(model);
  model.to(args.device);
  nn::BCELoss criterion;
  optim::Adam optimizer(model, {.lr = 2e-3});
  for (int step = 0; step < args.steps; ++step) {
    // Every other pair is of one digit.
    const Tensor labels1 = twin::randint(3, {32});
    const Tensor others = remainder(labels1 + 1 + twin::randint(2, {32}), 3);
    const Tensor target = (remainder(arange(32), 2) == 0).to(args.device, DType::f32);
    const Tensor labels2 = where(target.cpu() == 1, labels1, others);
    const Tensor images1 = twin::digits(labels1).to(args.device);
    const Tensor images2 = twin::digits(labels2).to(args.device);
    optimizer.zero_grad();
    const Tensor output = call(model, images1, images2);
    const Tensor loss = criterion(output, target);
    loss.backward();
    optimizer.step();
    if (step % 3 == 0) std::printf("step %d loss %.6g\n", step, loss.item());
  }
}
