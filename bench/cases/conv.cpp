// Convolutions of row-major images by themselves: forward alone, and forward with the gradients of input,
// weight and bias.
#include "cases/program.h"
#include "convolutions.h"

namespace bench {
namespace {

void add_convolution(Worker& worker, const Convolution& c, const NamedDType& type) {
  const DType dtype = type.dtype;
  const auto x = [=] { return normal({c.batch, c.in, c.size, c.size}, dtype); };
  const auto weight = [=] { return normal({c.out, c.in / c.groups, c.kernel, c.kernel}, dtype); };
  const auto bias = [=] { return normal({c.out}, dtype); };
  const auto forward = [=] {
    return [=, x = x(), w = weight(), b = bias()] {
      const NoGrad no_grad;
      const Tensor y = padded_conv2d(x, w, b, c.padding, c.groups);
    };
  };
  const auto backward = [=] {
    return [=, x = leaf(x()), w = leaf(weight()), b = leaf(bias()),
            g = normal({c.batch, c.out, c.size, c.size}, dtype)] {
      gradients(padded_conv2d(x, w, b, c.padding, c.groups), {x, w, b}, g);
    };
  };
  const std::string name = c.name, suffix = std::string("/") + type.name;
  worker.add(name + suffix, forward);
  worker.add(name + "_backward" + suffix, backward);
#ifndef BENCH_LIBTORCH
  if (!on_cpu()) return;
  const auto by_eigen = [](auto setup) {
    return [setup] {
      return [body = setup()] {
        kernels::cpu::set_gemm_engine(kernels::cpu::GemmEngine::eigen);
        body();
        kernels::cpu::set_gemm_engine(kernels::cpu::GemmEngine::automatic);
      };
    };
  };
  worker.add(name + "_eigen" + suffix, by_eigen(forward));
  worker.add(name + "_eigen_backward" + suffix, by_eigen(backward));
#endif
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    for (const bench::NamedDType& type : bench::kFloats) {
      for (const bench::Convolution& convolution : bench::kConvolutions)
        bench::add_convolution(worker, convolution, type);
    }
  });
}
