// The kernels by themselves, on arrays that a training step has: pointwise ops, rows, products.
#include "cases/library.h"
#include "products.h"
#include "worker.h"

namespace bench {
namespace {

constexpr std::int64_t kElements = 4 << 20;
constexpr std::int64_t kRows = 4096, kCols = 1024;

using Unary = Tensor (*)(const Tensor&);

void add_pointwise(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  worker.add("add" + suffix, [dtype = type.dtype] {
    return [x = normal({kElements}, dtype), y = normal({kElements}, dtype)] {
      const NoGrad no_grad;
      const Tensor z = x + y;
    };
  });
  const std::pair<const char*, Unary> ops[] = {
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
  };
  for (const auto& [name, op] : ops) {
    worker.add(name + suffix, [dtype = type.dtype, op] {
      return [x = normal({kElements}, dtype), op] {
        const NoGrad no_grad;
        const Tensor z = op(x);
      };
    });
  }
}

void add_rows(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  const DType dtype = type.dtype;
  worker.add("softmax" + suffix, [dtype] {
    return [x = normal({kRows, kCols}, dtype)] {
      const NoGrad no_grad;
      const Tensor y = softmax(x, -1);
    };
  });
  worker.add("softmax_backward" + suffix, [dtype] {
    return [x = leaf(normal({kRows, kCols}, dtype)), g = normal({kRows, kCols}, dtype)] {
      const Tensor dx = gradient(softmax(x, -1), x, g);
    };
  });
  worker.add("sum" + suffix, [dtype] {
    return [x = normal({kRows, kCols}, dtype)] {
      const NoGrad no_grad;
      const Tensor y = sum(x);
    };
  });
  worker.add("sum_backward" + suffix, [dtype] {
    return [x = leaf(normal({kRows, kCols}, dtype))] { const Tensor dx = gradient(sum(x), x); };
  });
  worker.add("cross_entropy" + suffix, [dtype] {
    return [x = normal({kRows, kCols}, dtype), target = integers(kCols, kRows)] {
      const NoGrad no_grad;
      const Tensor y = cross_entropy(x, target);
    };
  });
  worker.add("cross_entropy_backward" + suffix, [dtype] {
    return [x = leaf(normal({kRows, kCols}, dtype)), target = integers(kCols, kRows)] {
      const Tensor dx = gradient(cross_entropy(x, target), x);
    };
  });
}

void add_products(Worker& worker, const NamedDType& type) {
  for (const Product& p : kProducts) {
    const auto setup = [p, dtype = type.dtype] {
      return [a = normal({p.m, p.k}, dtype), b = normal({p.k, p.n}, dtype)] {
        const NoGrad no_grad;
        const Tensor c = matmul(a, b);
      };
    };
    worker.add(std::string("gemm_") + p.name + "/" + type.name, setup);
#ifndef BENCH_LIBTORCH
    worker.add(std::string("gemm_") + p.name + "_eigen/" + type.name, [setup] {
      return [body = setup()] {
        kernels::cpu::set_gemm_engine(kernels::cpu::GemmEngine::eigen);
        body();
        kernels::cpu::set_gemm_engine(kernels::cpu::GemmEngine::automatic);
      };
    });
#endif
  }
}

}  // namespace
}  // namespace bench

int main() {
  bench::Worker worker(bench::about());
  for (const bench::NamedDType& type : bench::kFloats) {
    bench::add_pointwise(worker, type);
    bench::add_rows(worker, type);
    bench::add_products(worker, type);
  }
  return worker.run();
}
