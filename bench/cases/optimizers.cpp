// A step of an optimizer on given gradients: 50 Mi parameters in large tensors, which costs what their bytes
// cost, and a thousand parameters of 100 elements, which costs what the host does for each. And the clipping
// that often goes before it.
#include "cases/program.h"

namespace bench {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Twelve matrices of 4 Mi elements and one of 2 Mi.
Shapes large() {
  Shapes shapes(12, {2048, 2048});
  shapes.push_back({2048, 1024});
  return shapes;
}
Shapes small() { return Shapes(1000, {100}); }

std::vector<Tensor> parameters_with_gradients(const Shapes& shapes, DType dtype = kF32) {
  manual_seed(0);
  std::vector<Tensor> parameters;
  for (const std::vector<std::int64_t>& shape : shapes) {
    parameters.push_back(leaf(normal(shape, dtype)));
    give_gradient(parameters.back(), normal(shape, dtype));
  }
  return parameters;
}

template <class Optimizer>
Body step_of(std::shared_ptr<Optimizer> optimizer) {
  return [optimizer] { optimizer->step(); };
}

#ifndef BENCH_LIBTORCH
/// Its scale is so near to 1 that the gradients, which each step may unscale again, stay what they are.
Body scaled_step_of(const std::vector<Tensor>& parameters, bool write_unscaled) {
  const amp::GradScalerOptions options{.init_scale = 1 + 0x1p-20, .write_unscaled = write_unscaled};
  return [optimizer = adamw(parameters), scaler = std::make_shared<amp::GradScaler>(options),
          loss = zeros({}, {.device = target_device})] {
    static_cast<void>(scaler->scale(loss));
    scaler->step(*optimizer);
    scaler->update();
  };
}
#endif

void add_steps(Worker& worker, const std::string& size, Shapes (*shapes)()) {
  worker.add("adamw_" + size + "/f32",
             [shapes] { return step_of(adamw(parameters_with_gradients(shapes()))); });
  worker.add("sgd_momentum_" + size + "/f32",
             [shapes] { return step_of(sgd_with_momentum(parameters_with_gradients(shapes()))); });
  worker.add("clip_grad_norm_" + size + "/f32", [shapes]() -> Body {
    return [parameters = parameters_with_gradients(shapes())] { clip_grad_norm(parameters, 1); };
  });
#ifndef BENCH_LIBTORCH
  worker.add("adamw_" + size + "_8bit/f32", [shapes] {
    return step_of(std::make_shared<optim::AdamW>(parameters_with_gradients(shapes()),
                                                  optim::AdamWOptions{.state_bits = 8}));
  });
  // Of bf16 parameters: rounded, rounded at random, with f32 masters, with split ones.
  const std::pair<const char*, optim::AdamWOptions> ways[]{
      {"", {}},
      {"_stochastic", {.stochastic_rounding = true}},
      {"_masters", {.master_weights = true}},
      {"_split", {.master_weights = optim::MasterWeights::split}}};
  for (const auto& one : ways) {
    worker.add("adamw_" + size + one.first + "/bf16", [shapes, options = one.second] {
      return step_of(std::make_shared<optim::AdamW>(parameters_with_gradients(shapes(), kBF16), options));
    });
  }
  for (const bool write_unscaled : {true, false}) {
    const std::string name = "adamw_" + size + (write_unscaled ? "_scaler" : "_scaler_reads_gradients");
    worker.add(name + "/f32",
               [=] { return scaled_step_of(parameters_with_gradients(shapes()), write_unscaled); });
  }
#endif
}

void add_all(Worker& worker) {
  add_steps(worker, "large", large);
  add_steps(worker, "1000x100", small);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv, bench::add_all); }
