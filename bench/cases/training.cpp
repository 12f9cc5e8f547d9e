// Whole training steps: three Linear layers in the sizes of the timing sample, in f32, under autocast, and
// under autocast with GradScaler (which LibTorch has in Python only, see peers/pytorch.py). On a GPU also f32
// in TF32, and the step with GradScaler as one CUDA graph.
#include "cases/mlp.h"
#include "cases/program.h"

namespace bench {
namespace {

struct Size {
  const char* name;
  std::int64_t batch, width;
};
constexpr Size kSizes[] = {{"128x512", 128, 512},
                           {"512x1024", 512, 1024},
                           {"128x4096", 128, 4096},
                           {"512x4096", 512, 4096},
                           {"2048x4096", 2048, 4096}};

std::shared_ptr<Mlp> make(const Size& size) {
  return std::make_shared<Mlp>(std::vector<std::int64_t>(4, size.width), size.batch);
}

#ifndef BENCH_LIBTORCH
void add_mixed(Worker& worker, const Size& size, const NamedDType& type) {
  const std::string name = std::string("mlp_") + size.name + "/" + type.name;
  worker.add(name,
             [size, type] { return [mlp = make(size), dtype = type.dtype] { mlp->autocast_step(dtype); }; });
  const auto scaled = [size, type]() -> Body {
    return [mlp = make(size), scaler = std::make_shared<amp::GradScaler>(), dtype = type.dtype] {
      mlp->scaled_step(dtype, *scaler);
    };
  };
  worker.add(name + "_scaler", scaled);
  if (!on_cpu())
    worker.add(name + "_scaler_without_epilogues", [scaled] { return without_epilogues(scaled()); });
  worker.add(name + "_scaler_captured", [size, type]() -> Body {
    const auto step = std::make_shared<amp::CapturedStep>(
        target_device, [mlp = make(size), scaler = std::make_shared<amp::GradScaler>(), dtype = type.dtype] {
          mlp->optimizer.zero_grad();
          const Tensor value = mlp->autocast_loss(dtype);
          scaler->scale(value).backward();
          scaler->step(mlp->optimizer);
          scaler->update();
          return value;
        });
    return [step] { (*step)(); };
  });
}
#endif

void add_steps(Worker& worker) {
  for (const Size& size : kSizes) {
    const std::string name = std::string("mlp_") + size.name;
    const auto f32 = [size]() -> Body { return [mlp = make(size)] { mlp->step(); }; };
    worker.add(name + "/f32", f32);
#ifndef BENCH_LIBTORCH
    for (const NamedDType& type : {kF16Named, kBF16Named}) add_mixed(worker, size, type);
    if (!on_cpu()) worker.add(name + "/tf32", [f32] { return in_tf32(f32()); });
#endif
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) { return bench::run(argc, argv, bench::add_steps); }
