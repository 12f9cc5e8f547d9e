// The ops of the autocast lists beyond those of kernels.cpp, by themselves: functions of one element, norms,
// and rearrangements of a million elements. Sizes as in kernels.cpp.
#include "cases/program.h"

namespace bench {
namespace {

constexpr std::int64_t kCols = 1024, kMillion = 1 << 20;
std::int64_t elements() { return on_cpu() ? 4 << 20 : 64 << 20; }

/// Where a function is defined and ordinary.
enum class Domain { real, positive, unit };

Tensor inputs(Domain domain, DType dtype) {
  const NoGrad no_grad;
  const Tensor x = normal({elements()}, kF32);
  if (domain == Domain::positive) return (abs(x) + 0.01).to(dtype);
  return domain == Domain::unit ? (tanh(x) * 0.99).to(dtype) : x.to(dtype);
}

struct Unary {
  const char* name;
  Tensor (*op)(const Tensor&);
  Domain domain = Domain::real;
};
#define BENCH_UNARY(op) #op, [](const Tensor& x) { return op(x); }
const Unary kUnary[] = {
    {BENCH_UNARY(abs)},
    {BENCH_UNARY(floor)},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.01); }},
    {BENCH_UNARY(expm1)},
    {BENCH_UNARY(log), Domain::positive},
    {BENCH_UNARY(log2), Domain::positive},
    {BENCH_UNARY(log10), Domain::positive},
    {BENCH_UNARY(log1p), Domain::positive},
    {BENCH_UNARY(rsqrt), Domain::positive},
    {BENCH_UNARY(sin)},
    {BENCH_UNARY(cos)},
    {BENCH_UNARY(tan)},
    {BENCH_UNARY(asin), Domain::unit},
    {BENCH_UNARY(acos), Domain::unit},
    {BENCH_UNARY(atan)},
    {BENCH_UNARY(sinh)},
    {BENCH_UNARY(cosh)},
    {BENCH_UNARY(erf)},
    {BENCH_UNARY(erfinv), Domain::unit},
    {BENCH_UNARY(silu)},
    {BENCH_UNARY(mish)},
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"pow_scalar", [](const Tensor& x) { return pow(x, 2.5); }, Domain::positive},
};
#undef BENCH_UNARY

void add_pointwise(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  const DType dtype = type.dtype;
  for (const Unary& unary : kUnary) {
    worker.add(unary.name + suffix, [dtype, unary] {
      return [x = inputs(unary.domain, dtype), op = unary.op] {
        const NoGrad no_grad;
        const Tensor y = op(x);
      };
    });
  }
  worker.add("pow" + suffix, [dtype] {
    return [x = inputs(Domain::positive, dtype), p = inputs(Domain::real, dtype)] {
      const NoGrad no_grad;
      const Tensor y = pow(x, p);
    };
  });
  worker.add("atan2" + suffix, [dtype] {
    return [a = inputs(Domain::real, dtype), b = inputs(Domain::real, dtype)] {
      const NoGrad no_grad;
      const Tensor y = atan2(a, b);
    };
  });
  worker.add("addcmul" + suffix, [dtype] {
    return
        [x = inputs(Domain::real, dtype), a = inputs(Domain::real, dtype), b = inputs(Domain::real, dtype)] {
          const NoGrad no_grad;
          const Tensor y = addcmul(x, a, b);
        };
  });
}

using Norm = Tensor (*)(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// Forward alone, and forward with the gradients of input, weight and bias.
void add_norm(Worker& worker, const std::string& name, const NamedDType& type, Norm norm,
              const std::vector<std::int64_t>& shape, std::int64_t parameters) {
  const DType dtype = type.dtype;
  worker.add(name + "/" + type.name, [=] {
    return
        [x = normal(shape, dtype), w = normal({parameters}, dtype), b = normal({parameters}, dtype), norm] {
          const NoGrad no_grad;
          const Tensor y = norm(x, w, b);
        };
  });
  worker.add(name + "_backward/" + type.name, [=] {
    return [x = leaf(normal(shape, dtype)), w = leaf(normal({parameters}, dtype)),
            b = leaf(normal({parameters}, dtype)), g = normal(shape, dtype), norm] {
      gradients(norm(x, w, b), {x, w, b}, g);
    };
  });
}

void add_norms(Worker& worker, const NamedDType& type) {
  const std::int64_t rows = elements() / kCols, batch = on_cpu() ? 32 : 512;
  add_norm(
      worker, "layer_norm", type,
      [](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {kCols}, w, b); },
      {rows, kCols}, kCols);
  add_norm(
      worker, "group_norm", type,
      [](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 32, w, b); },
      {batch, 64, 56, 56}, 64);
  add_norm(
      worker, "batch_norm", type,
      [](const Tensor& x, const Tensor& w, const Tensor& b) { return batch_norm_in_training(x, w, b); },
      {batch, 64, 56, 56}, 64);
}

void add_rearrangements(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  const DType dtype = type.dtype;
  worker.add("cumsum" + suffix, [dtype] {
    return [x = normal({kMillion}, dtype)] {
      const NoGrad no_grad;
      const Tensor y = cumsum(x, 0);
    };
  });
  worker.add("sort" + suffix, [dtype] {
    return [x = normal({kMillion}, dtype)] {
      const NoGrad no_grad;
      const auto sorted = sort(x);
    };
  });
  worker.add("sort_rows" + suffix, [dtype] {
    return [x = normal({kMillion / kCols, kCols}, dtype)] {
      const NoGrad no_grad;
      const auto sorted = sort(x);
    };
  });
  worker.add("index" + suffix, [dtype] {
    return [x = normal({kMillion}, dtype), at = integers(kMillion, kMillion)] {
      const NoGrad no_grad;
      const Tensor y = element_at(x, at);
    };
  });
  worker.add("index_backward" + suffix, [dtype] {
    return [x = leaf(normal({kMillion}, dtype)), at = integers(kMillion, kMillion),
            g = normal({kMillion}, dtype)] { const Tensor dx = gradient(element_at(x, at), x, g); };
  });
  worker.add("scatter" + suffix, [dtype] {
    return [x = normal({kMillion}, dtype), at = integers(kMillion, kMillion), y = normal({kMillion}, dtype)] {
      const NoGrad no_grad;
      const Tensor z = scatter(x, 0, at, y);
    };
  });
  worker.add("scatter_add" + suffix, [dtype] {
    return [x = normal({kMillion}, dtype), at = integers(kMillion, kMillion), y = normal({kMillion}, dtype)] {
      const NoGrad no_grad;
      const Tensor z = scatter_add(x, 0, at, y);
    };
  });
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    for (const bench::NamedDType& type : bench::kFloats) {
      bench::add_pointwise(worker, type);
      bench::add_norms(worker, type);
      bench::add_rearrangements(worker, type);
    }
  });
}
