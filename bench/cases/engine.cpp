// What a call costs beside its arithmetic: ops on tensors of a few elements, and the training step of
// networks so small that it consists of calls, in f32, under autocast, and under autocast with GradScaler.
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

#ifndef BENCH_LIBTORCH
/// An op of some 10 us, and the same while a profiler records it.
void add_profiled(Worker& worker) {
  const auto add = [](bool is_profiled) {
    return [is_profiled]() -> Body {
      struct Recording {
        profile::Profiler profiler{{.warmup = 0, .steps = 1, .rates = false}};
        profile::Profiler::Step step = profiler.step();
      };
      const auto recording = is_profiled ? std::make_shared<Recording>() : nullptr;
      return [recording, x = normal({80'000}, kF32), y = normal({80'000}, kF32)] {
        const NoGrad no_grad;
        const Tensor z = x + y;
      };
    };
  };
  worker.add("add_80000", add(false));
  worker.add("add_80000_profiled", add(true));
}
#endif

struct Network {
  const char* name;
  std::vector<std::int64_t> sizes, batches;
};

/// The batch sizes of a regression, and of a policy that is asked about a few states at a time.
const Network kNetworks[] = {{"mlp_8_16_16_1", {8, 16, 16, 1}, {1, 32, 512, 4096}},
                             {"mlp_8_64_64_4", {8, 64, 64, 4}, {1, 32}}};

using MakeMlp = std::function<std::shared_ptr<Mlp>()>;

#ifndef BENCH_LIBTORCH
void add_mixed(Worker& worker, const std::string& name, const MakeMlp& make) {
  for (const NamedDType& type : {kF16Named, kBF16Named}) {
    const std::string mixed = name + "/" + type.name;
    worker.add(mixed, [make, type]() -> Body {
      return [mlp = make(), dtype = type.dtype] { mlp->autocast_step(dtype); };
    });
    worker.add(mixed + "_scaler", [make, type]() -> Body {
      return [mlp = make(), scaler = std::make_shared<amp::GradScaler>(), dtype = type.dtype] {
        mlp->scaled_step(dtype, *scaler);
      };
    });
  }
}

void add_captured(Worker& worker, const std::string& name, const MakeMlp& make) {
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
}
#endif

void add_steps(Worker& worker) {
#ifndef BENCH_LIBTORCH
  add_profiled(worker);
#endif
  for (const Network& network : kNetworks) {
    for (const std::int64_t batch : network.batches) {
      const std::string name = std::string(network.name) + "_step_batch_" + std::to_string(batch);
      const MakeMlp make = [sizes = network.sizes, batch] { return std::make_shared<Mlp>(sizes, batch); };
      worker.add(name, [make]() -> Body { return [mlp = make()] { mlp->step(); }; });
#ifndef BENCH_LIBTORCH
      add_captured(worker, name, make);
      add_mixed(worker, name, make);
#endif
    }
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
