// Training in default precision: the loop that the other programs of this folder change, one thing at a time.
// Everything is f32.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

int run(Device device) {
  manual_seed(0);  // weights and data come from the default generator
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});

  const Tensor input = randn({64, 16}, {.device = device});
  const Tensor target = sin(narrow(input, 1, 0, 8));

  std::vector<Tensor> losses;  // kept on the device: reading one in the loop would wait for it
  for (int step = 0; step < 40; ++step) {
    const Tensor output = net(input);
    const Tensor loss = mse_loss(output, target);
    loss.backward();        // adds to the .grad of every parameter
    optimizer.step();       // reads .grad
    optimizer.zero_grad();  // the next backward starts from nothing
    losses.push_back(loss.detach());
  }

  const double first = losses.front().item(), last = losses.back().item();
  const std::string weight = to_string(net.parameters()[0].dtype()), output = to_string(net(input).dtype());
  std::printf("weight %s\n", weight.c_str());
  std::printf("output %s\n", output.c_str());
  std::printf("loss %.4f -> %.4f\n", first, last);
  if (weight == "f32" && output == "f32" && last < first / 4) return 0;
  std::fprintf(stderr, "default_precision: expected f32 and a loss that falls to a quarter\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("default_precision", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
