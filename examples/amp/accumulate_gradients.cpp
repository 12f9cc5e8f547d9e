// Gradient accumulation: several small batches make one step, as one large batch would. Unscaling, stepping
// and adapting the scale belong to the end of the large batch: in between, gradients of one scale add up.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

struct Result {
  std::vector<double> weights;
  std::vector<double> scales;  ///< at every backward
};

/// Four steps, each on 64 rows that come in `parts` parts.
Result train(Device device, std::int64_t parts) {
  manual_seed(0);
  nn::Sequential net{nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 8)};
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  amp::GradScaler scaler({.init_scale = 256, .growth_interval = 1});  // grows with every update, for show
  const Tensor inputs = randn({4 * 64, 16}, {.device = device});
  const Tensor targets = sin(narrow(inputs, 1, 0, 8));

  Result result;
  const std::int64_t rows = 64 / parts;
  for (std::int64_t i = 0; i < 4 * parts; ++i) {
    Tensor loss;
    {
      const amp::Autocast autocast(device, DType::f16);
      const Tensor output = net(narrow(inputs, 0, i * rows, rows));
      // The mean of the parts' means is the mean of the whole: hence the division.
      loss = mse_loss(output, narrow(targets, 0, i * rows, rows)) / static_cast<double>(parts);
    }
    scaler.scale(loss).backward();  // adds to the gradients that are there
    result.scales.push_back(scaler.get_scale());

    if ((i + 1) % parts != 0) continue;  // the large batch is not complete
    scaler.unscale_(optimizer);          // for clipping; one part with inf or NaN skips the whole batch
    optim::clip_grad_norm_(net.parameters(), 1.0);
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
  for (const Tensor& parameter : net.parameters())
    for (const double value : parameter.to_vector<double>()) result.weights.push_back(value);
  return result;
}

int run(Device device) {
  const Result large = train(device, 1), small = train(device, 4);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < large.weights.size(); ++i) {
    difference += std::pow(small.weights[i] - large.weights[i], 2);
    size += std::pow(large.weights[i], 2);
  }
  const double relative = std::sqrt(difference / size);
  bool constant = true;
  for (std::size_t i = 0; i < small.scales.size(); ++i) {
    if (i % 4 == 0) std::printf("large batch %d: scale", static_cast<int>(i / 4));
    std::printf(" %g%s", small.scales[i], i % 4 == 3 ? "\n" : "");
    constant = constant && small.scales[i] == large.scales[i / 4];
  }
  std::printf("relative difference of the weights to those of large batches %.1e\n", relative);
  // The products ran in f16, whose rounding unit is 2^-11.
  if (constant && relative < 0x1p-11) return 0;
  std::fprintf(stderr, "accumulate_gradients: expected the weights of large batches, and their scales\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("accumulate_gradients", "--device NAME or nothing", argv[1],
                       "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
