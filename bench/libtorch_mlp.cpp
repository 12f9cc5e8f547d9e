// The peer of examples/mlp_timing: the same f32 training step in LibTorch's C++ API. Prints the median step
// in milliseconds. Built by compare_libtorch.sh only, since LibTorch is no dependency of mezzo. usage:
// libtorch_mlp WIDTH LAYERS BATCH NUM_BATCHES EPOCHS
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int width = std::atoi(argv[1]), layers = std::atoi(argv[2]), batch = std::atoi(argv[3]);
  const int num_batches = std::atoi(argv[4]), epochs = std::atoi(argv[5]);
  torch::manual_seed(0);
  torch::nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    if (i > 0) net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::Linear(width, width));
  }
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(1e-3));
  std::vector<torch::Tensor> inputs, targets;
  for (int i = 0; i < num_batches; ++i) {
    inputs.push_back(torch::randn({batch, width}));
    targets.push_back(torch::randn({batch, width}));
  }
  std::vector<double> seconds;
  for (int step = 0; step < num_batches * epochs; ++step) {
    const auto i = static_cast<std::size_t>(step % num_batches);
    const auto start = std::chrono::steady_clock::now();
    const torch::Tensor loss = torch::mse_loss(net->forward(inputs[i]), targets[i]);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%.4f\n", 1e3 * seconds[seconds.size() / 2]);
  return 0;
}
