// What a call costs beside its arithmetic: ops on tensors of a few elements, and the training step of a
// network so small that it consists of calls.
#include "cases/mlp.h"
#include "cases/program.h"

namespace bench {
namespace {

void add_ops(Worker& worker) {
  worker.add("add_4x4", [] {
    return [x = normal({4, 4}, kF32), y = normal({4, 4}, kF32)] {
      const NoGrad no_grad;
      const Tensor z = x + y;
    };
  });
  worker.add("add_4x4_recorded", [] {
    return [x = leaf(normal({4, 4}, kF32)), y = normal({4, 4}, kF32)] { const Tensor z = x + y; };
  });
  worker.add("matmul_16x16", [] {
    return [x = normal({16, 16}, kF32), y = normal({16, 16}, kF32)] {
      const NoGrad no_grad;
      const Tensor z = matmul(x, y);
    };
  });
  worker.add("mul_chain_10_backward", [] {
    return [x = leaf(normal({1}, kF32))] {
      Tensor y = x;
      for (int i = 0; i < 10; ++i) y = y * x;
      const Tensor dx = gradient(y, x);
    };
  });
}

void add_steps(Worker& worker) {
  for (const std::int64_t batch : {1, 512}) {
    const std::string name = "mlp_8_16_16_1_step_batch_" + std::to_string(batch);
    const auto make = [batch] {
      return std::make_shared<Mlp>(std::vector<std::int64_t>{8, 16, 16, 1}, batch);
    };
    worker.add(name, [make]() -> Body { return [mlp = make()] { mlp->step(); }; });
#ifndef BENCH_LIBTORCH
    worker.add(name + "_captured", [make]() -> Body {
      const auto step = std::make_shared<amp::CapturedStep>(target_device, [mlp = make()] {
        mlp->optimizer.zero_grad();
        const Tensor loss = mse_loss(mlp->net.forward(mlp->input), mlp->target);
        loss.backward();
        mlp->optimizer.step();
        return loss;
      });
      return [step] { (*step)(); };
    });
#endif
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    bench::add_ops(worker);
    bench::add_steps(worker);
  });
}
