// The main function of a benchmark program: which device its cases run on, then its commands.
#pragma once

#include <iostream>
#include <stdexcept>
#include <string>

#include "cases/library.h"
#include "worker.h"

namespace bench {

#ifdef BENCH_LIBTORCH

inline Target target_of(const std::string& device) {
  if (device != "cpu") throw std::runtime_error("LibTorch is timed on the CPU only, got --device " + device);
  return {};
}

#else

inline Target target_of(const std::string& device) {
  target_device = Device::parse(device);
  static_cast<void>(memory_stats(target_device));  // a device that is not there says so now
  Target result;
  result.reset_peak = [] {
    empty_cache(target_device);
    reset_peak_memory_stats(target_device);
  };
  result.peak = [] { return memory_stats(target_device).peak; };
  if (on_cpu()) return result;
  cuda::set_benchmark(true);  // as PyTorch's twin has cudnn.benchmark
  result.synchronize = [] { synchronize(target_device); };
  result.plans = [] { return cuda::plans(); };
  result.warmup = 12;
  return result;
}

/// The same case with products of f32 matrices in TF32.
inline Body in_tf32(Body body) {
  return [body = std::move(body)] {
    cuda::set_allow_tf32(true);
    body();
    cuda::set_allow_tf32(false);
  };
}

/// The same case with biases and their gradients beside the products, not in them.
inline Body without_epilogues(Body body) {
  return [body = std::move(body)] {
    kernels::cuda::set_gemm_epilogues(false);
    body();
    kernels::cuda::set_gemm_epilogues(true);
  };
}

#endif

/// `program [--device D]`; D is cpu (the default), cuda or cuda:N. `add` makes the cases.
inline int run(int argc, char** argv, void (*add)(Worker&)) try {
  const std::string option = argc > 1 ? argv[1] : "--device";
  if (option != "--device" || argc == 2 || argc > 3) throw std::runtime_error("usage: PROGRAM [--device D]");
  const Target chosen = target_of(argc == 3 ? argv[2] : "cpu");
  Worker worker(about(), chosen);
  add(worker);
  return worker.run();
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 2;
}

}  // namespace bench
