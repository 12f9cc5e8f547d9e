// The kernels by themselves: pointwise ops, rows, products. On the CPU on arrays that a training step has, on
// a GPU on ones that its caches cannot hold, and there also the ceiling, copies.
#include "cases/program.h"
#include "products.h"

namespace bench {
namespace {

constexpr std::int64_t kCols = 1024, kVocabulary = 50257;  // GPT-2's, whose rows begin anywhere
std::int64_t elements() { return on_cpu() ? 4 << 20 : 64 << 20; }

using Unary = Tensor (*)(const Tensor&);

void add_pointwise(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  worker.add("add" + suffix, [dtype = type.dtype] {
    return [x = normal({elements()}, dtype), y = normal({elements()}, dtype)] {
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
    worker.add(name + suffix, [dtype = type.dtype, function = op] {
      return [x = normal({elements()}, dtype), function] {
        const NoGrad no_grad;
        const Tensor z = function(x);
      };
    });
  }
}

/// `name`: of the cases, behind the op's.
void add_rows(Worker& worker, const NamedDType& type, std::int64_t cols, const std::string& name) {
  const std::string suffix = name + "/" + type.name;
  const std::int64_t rows = elements() / cols;
  const auto x = [dtype = type.dtype, rows, cols] { return normal({rows, cols}, dtype); };
  worker.add("softmax" + suffix, [x] {
    return [x = x()] {
      const NoGrad no_grad;
      const Tensor y = softmax(x, -1);
    };
  });
  worker.add("softmax_backward" + suffix,
             [x] { return [x = leaf(x()), g = x()] { const Tensor dx = gradient(softmax(x, -1), x, g); }; });
  worker.add("cross_entropy" + suffix, [x, rows, cols] {
    return [x = x(), target = integers(cols, rows)] {
      const NoGrad no_grad;
      const Tensor y = cross_entropy(x, target);
    };
  });
  worker.add("cross_entropy_backward" + suffix, [x, rows, cols] {
    return [x = leaf(x()), target = integers(cols, rows)] {
      const Tensor dx = gradient(cross_entropy(x, target), x);
    };
  });
}

void add_sums(Worker& worker, const NamedDType& type) {
  const auto x = [dtype = type.dtype] { return normal({elements() / kCols, kCols}, dtype); };
  worker.add(std::string("sum/") + type.name, [x] {
    return [x = x()] {
      const NoGrad no_grad;
      const Tensor y = sum(x);
    };
  });
  worker.add(std::string("sum_backward/") + type.name,
             [x] { return [x = leaf(x())] { const Tensor dx = gradient(sum(x), x); }; });
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
    if (!on_cpu()) {
      if (type.dtype == kF32)
        worker.add(std::string("gemm_") + p.name + "/tf32", [setup] { return in_tf32(setup()); });
      continue;
    }
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

/// As in peers/bare.cpp: the bytes are what is read and written together.
void add_copies(Worker& worker) {
  for (const std::int64_t mib : {256, 384, 512, 768, 1024}) {
    worker.add("copy_" + std::to_string(mib) + "MiB", [mib] {
      const std::int64_t count = mib << 17;  // f32 that are half the bytes
      return [x = normal({count}, kF32), y = normal({count}, kF32)]() mutable { y.copy_(x); };
    });
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    for (const bench::NamedDType& type : bench::kFloats) {
      bench::add_pointwise(worker, type);
      bench::add_rows(worker, type, bench::kCols, "");
      bench::add_rows(worker, type, bench::kVocabulary, "_50257");
      bench::add_sums(worker, type);
      bench::add_products(worker, type);
    }
    if (!bench::on_cpu()) bench::add_copies(worker);
  });
}
