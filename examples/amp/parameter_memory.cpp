// What a parameter costs in memory, in bytes of its value, its gradient and what AdamW keeps, for each way to
// keep it. Under mpirun, a row for state that is shared out among the processes (ZeRO-1).
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <mezzo/dist.h>
#include <mezzo/mezzo.h>

using namespace mezzo;

namespace {

struct Way {
  const char* name;
  DType weights;  ///< what parameters are kept in
  DType region;   ///< what products run in
  optim::AdamWOptions options = {};
  bool sharded = false;
};

/// Bytes per parameter: weights and gradients; what the step makes, moments, masters, 16-bit copies.
struct Bytes {
  double before, made;
};
Bytes measure(Device device, const Way& way) {
  const std::int64_t start = memory_stats(device).current;
  nn::Sequential net{nn::Linear(1024, 1024), nn::ReLU(), nn::Linear(1024, 1024)};
  net.to(device).to(way.weights);
  const Tensor input = randn({8, 1024}, {.dtype = way.weights, .device = device});
  const auto bytes = [&] {
    const std::int64_t others = start + input.numel() * size_of(input.dtype());
    return static_cast<double>(memory_stats(device).current - others) / (2.0 * 1024 * 1025);
  };
  std::unique_ptr<dist::DataParallel> parallel;
  std::unique_ptr<optim::Optimizer> optimizer;
  if (way.sharded) {
    parallel = std::make_unique<dist::DataParallel>(net);
    optimizer = std::make_unique<dist::ShardedOptimizer<optim::AdamW>>(*parallel, way.options);
  } else {
    optimizer = std::make_unique<optim::AdamW>(net, way.options);
  }
  Tensor loss;
  {
    const amp::Autocast autocast(device, way.region, {.enabled = way.region != DType::f32});
    loss = mse_loss(net(input), input);
  }
  loss.backward();
  loss = Tensor();
  const double before = bytes();
  optimizer->step();
  return {before, bytes() - before};
}

int run(Device device) {
  const auto session = dist::init();
  constexpr DType f32 = DType::f32, bf16 = DType::bf16;
  const Way ways[]{{"f32", f32, f32},
                   {"bf16 autocast", f32, bf16},
                   {"bf16, f32 masters", bf16, bf16, {.master_weights = true}},
                   {"bf16, split masters", bf16, bf16, {.master_weights = optim::MasterWeights::split}},
                   {"bf16, stochastic", bf16, bf16, {.stochastic_rounding = true}},
                   {"bf16 autocast, ZeRO-1", f32, bf16, {}, true},
                   {"bf16 autocast, 8-bit", f32, bf16, {.state_bits = 8}},
                   {"bf16, stochastic, 8-bit", bf16, bf16, {.stochastic_rounding = true, .state_bits = 8}}};
  bool good = true;
  for (const Way& way : ways) {
    if (way.sharded && dist::world_size() == 1) continue;
    const Bytes bytes = measure(device, way);
    if (dist::rank() == 0)
      std::printf("%-24s weights and gradients %4.1f, state and copies %4.1f, together %4.1f\n", way.name,
                  bytes.before, bytes.made, bytes.before + bytes.made);
    // Two moments; the master or half of one; the copy for autocast.
    const double master = way.options.master_weights == optim::MasterWeights::split ? 2 : 4;
    const double expected = way.options.state_bits / 4.0 + (way.options.master_weights ? master : 0) +
                            (way.weights != way.region ? 2 : 0);
    good = good && (way.sharded || std::abs(bytes.made - expected) < 0.1);
  }
  if (good) return 0;
  std::fprintf(stderr, "parameter_memory: expected 8 bytes of moments, 4 or 2 of masters, 2 of a copy\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--device"))
      throw ValueError("parameter_memory", "--device NAME or nothing", argv[1], "for example --device cpu");
    return run(argc == 3 ? Device::parse(argv[2]) : Device::best());
  } catch (const ValueError& error) {  // a wrong flag
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
