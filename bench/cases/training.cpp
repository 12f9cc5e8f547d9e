// Whole training steps: three Linear layers in the sizes of the timing sample, in f32, under autocast, and
// under autocast with GradScaler (which LibTorch has in Python only, see peers/pytorch.py).
#include "cases/library.h"
#include "cases/mlp.h"
#include "worker.h"

namespace bench {
namespace {

struct Size {
  const char* name;
  std::int64_t batch, width;
};
constexpr Size kSizes[] = {{"128x512", 128, 512}, {"512x1024", 512, 1024}, {"512x4096", 512, 4096}};

std::shared_ptr<Mlp> make(const Size& size) {
  return std::make_shared<Mlp>(std::vector<std::int64_t>(4, size.width), size.batch);
}

#ifndef BENCH_LIBTORCH
void add_mixed(Worker& worker, const Size& size, const NamedDType& type) {
  const std::string name = std::string("mlp_") + size.name + "/" + type.name;
  const auto loss = [dtype = type.dtype](Mlp& mlp) {
    const amp::Autocast autocast(Device::cpu(), dtype);
    return mse_loss(mlp.net.forward(mlp.input), mlp.target);
  };
  worker.add(name, [size, loss] {
    return [mlp = make(size), loss] {
      loss(*mlp).backward();
      mlp->optimizer.step();
      mlp->optimizer.zero_grad();
    };
  });
  worker.add(name + "_scaler", [size, loss] {
    return [mlp = make(size), scaler = std::make_shared<amp::GradScaler>(), loss] {
      scaler->scale(loss(*mlp)).backward();
      scaler->step(mlp->optimizer);
      scaler->update();
      mlp->optimizer.zero_grad();
    };
  });
}
#endif

void add_steps(Worker& worker) {
  for (const Size& size : kSizes) {
    worker.add(std::string("mlp_") + size.name + "/f32",
               [size] { return [mlp = make(size)] { mlp->step(); }; });
#ifndef BENCH_LIBTORCH
    for (const NamedDType& type : {kFloats[1], kFloats[2]}) add_mixed(worker, size, type);
#endif
  }
}

}  // namespace
}  // namespace bench

int main() {
  bench::Worker worker(bench::about());
  bench::add_steps(worker);
  return worker.run();
}
