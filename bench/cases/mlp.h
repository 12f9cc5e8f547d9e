// The training step of a multi-layer perceptron, in f32 and under autocast, for the benchmarks of the engine
// (small) and of training (large).
#pragma once

#include <memory>
#include <vector>

#include "cases/library.h"

namespace bench {

/// Linear layers with ReLU between them, mean squared error, SGD; data from a fixed seed.
struct Mlp {
  Mlp(const std::vector<std::int64_t>& sizes, std::int64_t batch)
      : net(make(sizes)),
        optimizer(parameters(net), {1e-3}),
        input(normal({batch, sizes.front()}, kF32)),
        target(normal({batch, sizes.back()}, kF32)) {}

  void step() {
    mse_loss(forward(net, input), target).backward();
    optimizer.step();
    optimizer.zero_grad();
  }

#ifndef BENCH_LIBTORCH
  Tensor autocast_loss(DType dtype) {
    const amp::Autocast autocast(target_device, dtype);
    return mse_loss(net.forward(input), target);
  }

  void autocast_step(DType dtype) {
    autocast_loss(dtype).backward();
    optimizer.step();
    optimizer.zero_grad();
  }

  void scaled_step(DType dtype, amp::GradScaler& scaler) {
    scaler.scale(autocast_loss(dtype)).backward();
    scaler.step(optimizer);
    scaler.update();
    optimizer.zero_grad();
  }
#endif

  nn::Sequential net;
  SGD optimizer;
  Tensor input, target;

 private:
  static nn::Sequential make(const std::vector<std::int64_t>& sizes) {
    manual_seed(0);
    nn::Sequential net;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (i > 0) push_relu(net);
      push_linear(net, sizes[i], sizes[i + 1]);
    }
    to_target(net);
    return net;
  }
};

}  // namespace bench
