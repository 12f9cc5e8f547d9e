// Normalizations: the rows of a transformer, the images of a convolutional net in both layouts, and three
// ways to a 16-bit result. On a GPU rows of every length that its kernels treat differently, 64 M elements.
#include <functional>

#include "cases/program.h"

namespace bench {
namespace {

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

struct NormCase {
  std::vector<std::int64_t> shape;
  std::int64_t parameters;
  bool channels_last = false;
  bool biased = true;

  [[nodiscard]] Tensor input(DType dtype) const {
    const Tensor x = normal(shape, dtype);
    return channels_last ? bench::channels_last(x) : x;
  }
};

/// Forward alone, and forward with the gradients of input, weight and bias.
void add_norm(Worker& worker, const std::string& name, const NamedDType& type, const Norm& norm,
              const NormCase& c) {
  const DType dtype = type.dtype;
  worker.add(name + "/" + type.name, [=] {
    return [x = c.input(dtype), w = normal({c.parameters}, dtype), b = normal({c.parameters}, dtype), norm] {
      const NoGrad no_grad;
      const Tensor y = norm(x, w, b);
    };
  });
  worker.add(name + "_backward/" + type.name, [=] {
    const Tensor x = leaf(c.input(dtype)), w = leaf(normal({c.parameters}, dtype)),
                 b = leaf(normal({c.parameters}, dtype));
    const std::vector<Tensor> leaves = c.biased ? std::vector<Tensor>{x, w, b} : std::vector<Tensor>{x, w};
    return [=, g = c.input(dtype)] { gradients(norm(x, w, b), leaves, g); };
  });
}

/// From 16-bit x and f32 parameters to a 16-bit result and back, in three ways: in one kernel, by casts
/// around a norm in f32, and under autocast, where what comes next casts the result.
void add_low_precision(Worker& worker, const std::string& name, const NamedDType& type, const NormCase& c) {
#ifndef BENCH_LIBTORCH
  if (type.dtype == kF32) return;
  const DType dtype = type.dtype;
  const auto add = [&](const std::string& way, const Norm& norm) {
    worker.add(name + way + "_backward/" + type.name, [=] {
      const std::vector<Tensor> leaves{leaf(c.input(dtype)), leaf(normal({c.parameters}, kF32)),
                                       leaf(normal({c.parameters}, kF32))};
      return [=, g = c.input(dtype)] { gradients(norm(leaves[0], leaves[1], leaves[2]), leaves, g); };
    });
  };
  const std::int64_t cols = c.parameters;
  add("_low_precision", [=](const Tensor& x, const Tensor& w, const Tensor& b) {
    return layer_norm(x, {cols}, w, b, 1e-5, dtype);
  });
  add("_casts", [=](const Tensor& x, const Tensor& w, const Tensor& b) {
    return layer_norm(x.to(kF32), {cols}, w, b).to(dtype);
  });
  add("_autocast", [=](const Tensor& x, const Tensor& w, const Tensor& b) {
    const amp::Autocast autocast(target_device, dtype);
    return layer_norm(x, {cols}, w, b).to(dtype);
  });
#else
  static_cast<void>(worker), static_cast<void>(name), static_cast<void>(type), static_cast<void>(c);
#endif
}

void add_rows(Worker& worker, const std::string& size, const NamedDType& type, std::int64_t rows,
              std::int64_t cols) {
  const NormCase c{{rows, cols}, cols};
  add_norm(
      worker, "layer_norm_" + size, type,
      [=](const Tensor& x, const Tensor& w, const Tensor& b) { return layer_norm(x, {cols}, w, b); }, c);
  add_norm(worker, "rms_norm_" + size, type,
           [=](const Tensor& x, const Tensor& w, const Tensor& /*b*/) { return rms_norm(x, {cols}, w); },
           {c.shape, cols, false, false});
  add_low_precision(worker, "layer_norm_" + size, type, c);
}

void add_images(Worker& worker, const NamedDType& type) {
  const Norm group = [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return group_norm(x, 32, w, b);
  };
  for (const bool last : {false, true}) {
    const NormCase c{{on_cpu() ? 32 : 512, 64, 56, 56}, 64, last};
    const std::string layout = last ? "_channels_last" : "";
    add_norm(worker, "group_norm" + layout, type, group, c);
    add_norm(worker, "batch_norm" + layout, type, batch_norm_in_training, c);
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, [](bench::Worker& worker) {
    for (const bench::NamedDType& type : bench::kFloats) {
      if (bench::on_cpu()) {
        bench::add_rows(worker, "4096x1024", type, 4096, 1024);
        bench::add_rows(worker, "512x4096", type, 512, 4096);
      } else {
        for (const std::int64_t cols : {768, 4096, 16384})
          bench::add_rows(worker, std::to_string(cols), type, (64 << 20) / cols, cols);
      }
      bench::add_images(worker, type);
    }
  });
}
