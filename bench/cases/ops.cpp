// The ops of the autocast lists beyond those of kernels.cpp, by themselves: functions of one element,
// poolings, attention, rearrangements of a million elements, loops of recurrent cells, and the LSTM layer.
// Sizes as in kernels.cpp.
#include <span>

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

/// Forward alone, and forward with the gradient, of images in either layout: those of a large net, and those
/// that a net for MNIST has before its two poolings.
void add_pools(Worker& worker, const NamedDType& type) {
  struct Pool {
    std::string name;
    Tensor (*pool)(const Tensor&);
    std::vector<std::int64_t> shape;
  };
  const std::int64_t images = on_cpu() ? 32 : 512;
  const std::vector<Pool> pools{{"max_pool2d", max_pool_3x3, {images, 64, 56, 56}},
                                {"max_pool2d_2x2", max_pool_2x2, {images, 64, 56, 56}},
                                {"max_pool2d_2x2_28", max_pool_2x2, {2 * images, 32, 28, 28}},
                                {"max_pool2d_2x2_14", max_pool_2x2, {2 * images, 64, 14, 14}},
                                {"avg_pool2d", avg_pool_2x2, {images, 64, 56, 56}}};
  for (const Pool& c : pools) {
    for (const bool last : {false, true}) {
      const std::string name = c.name + (last ? "_channels_last" : "");
      const auto image = [c, last, dtype = type.dtype] {
        const Tensor x = normal(c.shape, dtype);
        return last ? channels_last(x) : x;
      };
      worker.add(name + "/" + type.name, [image, pool = c.pool] {
        return [x = image(), pool] {
          const NoGrad no_grad;
          const Tensor y = pool(x);
        };
      });
      worker.add(name + "_backward/" + type.name, [image, pool = c.pool] {
        const Tensor x = leaf(image());
        const Tensor g = pool(x.detach());
        return [x, g, pool] { const Tensor dx = gradient(pool(x), x, g); };
      });
    }
  }
}

/// 32768 queries in heads of 64 numbers with 512 keys each; on a GPU 8 times as many. And of fewer of them,
/// by keys and numbers.
struct AttentionCase {
  const char* name;
  std::int64_t samples, keys, size;
};
const AttentionCase kAttention[] = {
    {"", 8, 512, 64}, {"_64x32", 16, 64, 32}, {"_128x64", 8, 128, 64}, {"_2048x128", 1, 2048, 128}};

void add_attention(Worker& worker, const NamedDType& type, const AttentionCase& sizes) {
  const std::vector<std::int64_t> shape{sizes.samples * (on_cpu() ? 1 : 8), 8, sizes.keys, sizes.size};
  const DType dtype = type.dtype;
  for (const bool causal : {false, true}) {
    const std::string name = std::string(causal ? "attention_causal" : "attention") + sizes.name;
    worker.add(name + "/" + type.name, [=] {
      return [q = normal(shape, dtype), k = normal(shape, dtype), v = normal(shape, dtype), causal] {
        const NoGrad no_grad;
        const Tensor y = attend(q, k, v, causal);
      };
    });
    worker.add(name + "_backward/" + type.name, [=] {
      return [q = leaf(normal(shape, dtype)), k = leaf(normal(shape, dtype)), v = leaf(normal(shape, dtype)),
              g = normal(shape, dtype), causal] {
        gradients(attend(q, k, v, causal), {q, k, v}, g);
      };
    });
  }
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

// --- recurrent cells

/// 64 steps of a cell with 256 features and a batch of 32, and the gradients of its parameters.
struct CellLoop {
  static constexpr std::int64_t kSteps = 64, kBatch = 32, kSize = 256;

  explicit CellLoop(std::int64_t gates) {
    const NoGrad no_grad;
    for (std::int64_t t = 0; t < kSteps; ++t) inputs.push_back(normal({kBatch, kSize}, kF32));
    const auto parameter = [](const std::vector<std::int64_t>& shape) {
      return leaf(normal(shape, kF32) * (1.0 / 16));
    };
    for (int k = 0; k < 2; ++k) parameters.push_back(parameter({gates * kSize, kSize}));
    for (int k = 0; k < 2; ++k) parameters.push_back(parameter({gates * kSize}));
    start = {normal({kBatch, kSize}, kF32), normal({kBatch, kSize}, kF32)};
    grad_output = normal({kBatch, kSize}, kF32);
  }
  template <class Step>
  void run(const Step& step, DType dtype) const {
    LstmState state = start;
    {
#ifndef BENCH_LIBTORCH
      const amp::Autocast region(target_device, dtype, {.enabled = dtype != kF32});
#endif
      static_cast<void>(dtype);
      const auto& p = parameters;
      for (const Tensor& x : inputs) step(x, state, p[0], p[1], p[2], p[3]);
    }
    gradients(state.h, parameters, grad_output.to(dtype));
  }

  std::vector<Tensor> inputs, parameters;
  LstmState start;
  Tensor grad_output;
};

/// The layer over the same steps, with a gradient for all of its output.
template <class Layer>
void add_recurrent_layer(Worker& worker, const char* name, const NamedDType& type) {
  worker.add(std::string(name) + "/" + type.name, [dtype = type.dtype] {
    const std::vector<std::int64_t> shape{CellLoop::kSteps, CellLoop::kBatch, CellLoop::kSize};
    return [layer = recurrent_layer<Layer>(CellLoop::kSize), x = normal(shape, kF32),
            g = normal(shape, dtype), dtype]() mutable {
      Tensor y;
      {
#ifndef BENCH_LIBTORCH
        const amp::Autocast region(target_device, dtype, {.enabled = dtype != kF32});
#endif
        static_cast<void>(dtype);
        y = output_of(layer, x);
      }
      gradients(y, layer->parameters(), g);
    };
  });
}

void add_cells(Worker& worker, const NamedDType& type) {
#ifdef BENCH_LIBTORCH
  if (type.dtype != kF32) return;  // autocast is mezzo's here, and PyTorch's in peers/pytorch.py
#endif
  const auto add = [&](const char* name, std::int64_t gates, auto step) {
    worker.add(std::string(name) + "/" + type.name, [gates, step, dtype = type.dtype] {
      return [loop = std::make_shared<CellLoop>(gates), step, dtype] { loop->run(step, dtype); };
    });
  };
  add("lstm_cell", 4, [](const Tensor& x, LstmState& state, const auto&... parameters) {
    state = lstm_cell(x, state, parameters...);
  });
  add("gru_cell", 3, [](const Tensor& x, LstmState& state, const auto&... parameters) {
    state.h = gru_cell(x, state.h, parameters...);
  });
  add_recurrent_layer<nn::LSTM>(worker, "lstm_layer", type);
  add_recurrent_layer<nn::GRU>(worker, "gru_layer", type);
}

/// Images enlarged to twice their size, and sampled at as many places as they have.
void add_sampling(Worker& worker, const NamedDType& type) {
  const std::string suffix = std::string("/") + type.name;
  const DType dtype = type.dtype;
  const std::int64_t batch = on_cpu() ? 8 : 128;
  const auto image = [=] { return normal({batch, 64, 56, 56}, dtype); };
  const auto places = [=] { return tanh(normal({batch, 56, 56, 2}, dtype)); };
  worker.add("interpolate" + suffix, [=] {
    return [x = image()] {
      const NoGrad no_grad;
      const Tensor y = enlarged(x);
    };
  });
  worker.add("interpolate_backward" + suffix, [=] {
    return [x = leaf(image()), g = normal({batch, 64, 112, 112}, dtype)] {
      const Tensor dx = gradient(enlarged(x), x, g);
    };
  });
  worker.add("grid_sample" + suffix, [=] {
    return [x = image(), grid = places()] {
      const NoGrad no_grad;
      const Tensor y = sampled(x, grid);
    };
  });
  worker.add("grid_sample_backward" + suffix, [=] {
    return [x = leaf(image()), grid = leaf(places()), g = image()] {
      gradients(sampled(x, grid), {x, grid}, g);
    };
  });
}

// --- views: copies that change the order of dims, sums over such views, and rounded quotients

struct ViewCase {
  const char* name;
  Tensor (*make)(DType dtype);
  Tensor (*op)(const Tensor& x);
};
Tensor square(DType dtype) {
  const std::int64_t size = on_cpu() ? 2048 : 8192;
  return normal({size, size}, dtype);
}
std::int64_t view_batch() { return on_cpu() ? 32 : 512; }
Tensor images(DType dtype) { return normal({view_batch(), 64, 56, 56}, dtype); }
Tensor images_channels_last(DType dtype) { return channels_last(images(dtype)); }
/// Samples, places, heads, numbers of a head.
Tensor heads(DType dtype) { return normal({view_batch(), 128, 8, 64}, dtype); }
Tensor volumes(DType dtype) { return normal({8 * view_batch(), 8, 56 * 56}, dtype); }

const ViewCase kCopies[] = {
    {"copy", square, [](const Tensor& x) { return x.clone(); }},
    {"copy_transposed", square, [](const Tensor& x) { return x.transpose(0, 1).contiguous(); }},
    {"copy_to_channels_last", images, [](const Tensor& x) { return channels_last(x); }},
    {"copy_from_channels_last", images_channels_last, [](const Tensor& x) { return x.contiguous(); }},
    {"copy_permuted_0213", heads,
     [](const Tensor& x) {
       return x.permute({0, 2, 1, 3}).contiguous();
     }},
    {"copy_permuted_0231", heads,
     [](const Tensor& x) {
       return x.permute({0, 2, 3, 1}).contiguous();
     }},
    {"copy_permuted_201", volumes,
     [](const Tensor& x) {
       return x.permute({2, 0, 1}).contiguous();
     }},
};
const ViewCase kSums[] = {
    {"sum_transposed", square, [](const Tensor& x) { return sum(x.transpose(0, 1)); }},
    {"sum_dim_0", square, [](const Tensor& x) { return sum(x, {0}); }},
    {"sum_dim_0_transposed", square, [](const Tensor& x) { return sum(x.transpose(0, 1), {0}); }},
    {"sum_dim_1_transposed", square, [](const Tensor& x) { return sum(x.transpose(0, 1), {1}); }},
    {"sum_middle", volumes, [](const Tensor& x) { return sum(x, {1}); }},
    {"sum_middle_transposed", volumes, [](const Tensor& x) { return sum(x.transpose(1, 2), {1}); }},
    {"sum_permuted", volumes,
     [](const Tensor& x) {
       return sum(x.permute({1, 2, 0}));
     }},
    {"sum_channels", images,
     [](const Tensor& x) {
       return sum(x, {0, 2, 3});
     }},
    {"sum_channels_last", images_channels_last,
     [](const Tensor& x) {
       return sum(x, {0, 2, 3});
     }},
};

void add_views(Worker& worker, const NamedDType& type, std::span<const ViewCase> cases) {
  for (const ViewCase& view : cases) {
    worker.add(std::string(view.name) + "/" + type.name, [dtype = type.dtype, view] {
      return [x = view.make(dtype), op = view.op] {
        const NoGrad no_grad;
        const Tensor y = op(x);
      };
    });
  }
}

void add_quotients(Worker& worker, const NamedDType& type) {
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Binary> ops[] = {
      {"div_floor", [](const Tensor& a, const Tensor& b) { return rounded_quotient(a, b, true); }},
      {"div_trunc", [](const Tensor& a, const Tensor& b) { return rounded_quotient(a, b, false); }},
      {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); }},
  };
  for (const auto& [name, quotient] : ops) {
    worker.add(std::string(name) + "/" + type.name, [dtype = type.dtype, op = quotient] {
      const Tensor a = (normal({elements()}, kF32) * 1000).to(dtype);
      const Tensor b = (abs(normal({elements()}, kF32)) * 100 + 1).to(dtype);
      return [a, b, op] {
        const NoGrad no_grad;
        const Tensor q = op(a, b);
      };
    });
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    for (const bench::NamedDType& type : bench::kFloats) {
      bench::add_pointwise(worker, type);
      bench::add_pools(worker, type);
      for (const bench::AttentionCase& sizes : bench::kAttention) bench::add_attention(worker, type, sizes);
      bench::add_rearrangements(worker, type);
      bench::add_cells(worker, type);
      bench::add_sampling(worker, type);
      bench::add_views(worker, type, bench::kCopies);
      bench::add_views(worker, type, bench::kSums);
      bench::add_quotients(worker, type);
    }
    bench::add_views(worker, bench::kU8Named, bench::kCopies);
    for (const bench::NamedDType& type : bench::kIntegers) bench::add_quotients(worker, type);
  });
}
