// Ranks as threads of one process, each with a GPU of its own: NCCL moves their CUDA tensors, the transport
// of tests/dist/rank_threads.h those of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

#include "dist/rank_threads.h"
#include "mezzo/core/cuda.h"
#include "mezzo/dist/collectives.h"
#include "mezzo/dist/nccl/transport.h"
#include "mezzo/mezzo.h"

namespace mezzo::test {

/// Skips a test that needs more GPUs than there are.
#define MEZZO_NEED_GPUS(count)                                                              \
  if (cuda::device_count() < (count))                                                       \
  GTEST_SKIP() << "needs " << (count) << " GPUs, " << cuda::device_count() << " are here; " \
               << cuda::why_unavailable()

using RankFunction = std::function<void(const dist::Group& group, Device device)>;

/// Runs `f` once per rank; rank r has device r.
inline void run_cuda_ranks(int size, const RankFunction& f,
                           std::chrono::milliseconds timeout = std::chrono::minutes(5)) {
  run_ranks(
      size, [&](const dist::Group& group) { f(group, Device::cuda(group.rank())); }, {},
      dist::nccl_over_host({.timeout = timeout}));
}

/// All values, read behind the work in the current stream.
inline std::vector<double> values(const Tensor& tensor) {
  const Tensor flat = tensor.to(Device::cpu()).to(DType::f64).contiguous().view({-1});
  const auto* const data = static_cast<const double*>(flat.impl().data());
  return {data, data + flat.numel()};
}

}  // namespace mezzo::test
