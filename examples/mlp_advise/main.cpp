// Why mixed precision is not faster for an MLP of these sizes: amp::advise. What `mlp_timing --advise` runs,
// which itself is linked with a part of the library only.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "../command_line.h"
#include "mezzo/mezzo.h"

namespace {

using namespace mezzo;

struct Options {
  std::vector<std::int64_t> sizes{512, 512, 512, 512};
  std::int64_t batch_size = 128, steps = 5;
  std::string device = "cpu", dtype;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--sizes", o.sizes, "features: input, hidden..., output")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "samples per batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "steps of each run and trial")->capture_default_str();
  app.add_option("--device", o.device, "cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f16 or bf16; what the device prefers unless given");
}

void advise(const Options& o) {
  const Device device = Device::parse(o.device);
  if (o.sizes.size() < 2)
    throw ValueError("mlp_advise", "--sizes of an input and an output at least",
                     std::to_string(o.sizes.size()), "pass 512,512");
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < o.sizes.size(); ++i) {
    if (i > 0) net.push_back(nn::ReLU());
    net.push_back(nn::Linear(o.sizes[i], o.sizes[i + 1]));
  }
  net.to(device);
  amp::AdviseOptions options{.steps = o.steps};
  if (!o.dtype.empty()) options.dtype = parse_dtype(o.dtype);
  const Tensor input = randn({o.batch_size, o.sizes.front()}, {.device = device});
  const Tensor target = randn({o.batch_size, o.sizes.back()}, {.device = device});
  std::cout << amp::advise(net, input, target, mse_loss, options) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, "mlp_advise", "Says why mixed precision is not faster for an MLP.",
                     add_options, advise);
}
