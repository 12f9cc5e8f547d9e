// The update of the parameters and of the scale inside a CUDA graph: nothing in them needs the host, so
// replaying them gives what calling them gives, also where a replay skips.
#include <cuda_runtime.h>

#include <memory>

#include "cuda/twin.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/cuda/memory_pool.h"
#include "mezzo/core/cuda/stream.h"
#include "mezzo/optim/clip.h"
#include "mezzo/tests/support/algorithms.h"

namespace mezzo::amp {
namespace {

using twin::kInf;
using twin::leaf;
using twin::set_element;
using twin::values;

/// Parameters, an optimizer and a scaler, with gradients that stay where they are in memory.
struct Training {
  Training(const optim::Algorithm& algorithm, const Value& changes, DType third, bool clips) : clip(clips) {
    const Device device = Device::cuda(0);
    parameters = {leaf(1, {1031}, DType::f32, device), leaf(2, {3, 5}, DType::bf16, device),
                  leaf(3, {77, 59}, third, device)};
    optimizer = algorithm.make(parameters, changes);
    for (const Tensor& p : parameters) p.set_grad(zeros(p.shape(), {.dtype = p.dtype(), .device = device}));
  }
  void set_gradients(std::uint64_t i) const {
    for (const Tensor& p : parameters) p.grad().copy_(values(++i, p.shape(), p.dtype(), p.device()));
    if (i % 4 == 0) set_element(parameters[i % 3].grad(), -1, kInf);
  }
  void update() {
    static_cast<void>(scaler.scale(zeros({}, {.device = Device::cuda(0)})));
    if (clip) {
      scaler.unscale_(*optimizer);
      static_cast<void>(optim::clip_grad_norm_(parameters, 0.5));
    }
    static_cast<void>(scaler.step(*optimizer));
    scaler.update();
  }
  [[nodiscard]] std::vector<std::vector<double>> result() const {
    std::vector<std::vector<double>> all{{scaler.get_scale(), static_cast<double>(scaler.steps_ok()),
                                          static_cast<double>(scaler.steps_skipped())}};
    for (const Tensor& p : parameters) all.push_back(p.detach().to_vector<double>());
    for (const auto& [key, tensor] : optimizer->state_dict().tensors)
      all.push_back(tensor.to_vector<double>());
    return all;
  }
  bool clip;
  std::vector<Tensor> parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  GradScaler scaler{{.init_scale = 64, .growth_interval = 2}};
};

class CudaCapturedUpdate : public twin::CudaTwin, public ::testing::WithParamInterface<optim::Algorithm> {};

INSTANTIATE_TEST_SUITE_P(All, CudaCapturedUpdate, ::testing::ValuesIn(optim::algorithms()),
                         [](const auto& named) { return named.param.name; });

void expect_replays_to_equal_calls(const optim::Algorithm& algorithm, const Value& changes, DType third,
                                   bool clip) {
  const cuda::Stream stream;
  const cuda::StreamGuard guard(stream);
  cuda::MemoryPool pool;
  Training called(algorithm, changes, third, clip), replayed(algorithm, changes, third, clip);
  for (Training* run : {&called, &replayed}) {  // makes state and records
    run->set_gradients(1);
    run->update();
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  {
    const cuda::MemoryPoolScope scope(pool);
    ASSERT_EQ(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    replayed.update();
    ASSERT_EQ(cudaStreamEndCapture(native(stream), &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  }
  EXPECT_EQ(replayed.result(), called.result()) << "capturing runs nothing";
  for (std::uint64_t i = 2; i < 9; ++i) {
    for (Training* run : {&called, &replayed}) {
      run->set_gradients(i);
      if (i == 6) run->optimizer->set_lr(0.2);  // a replay reads it from the device
    }
    called.update();
    ASSERT_EQ(cudaGraphLaunch(executable, native(stream)), cudaSuccess);
    EXPECT_EQ(replayed.result(), called.result()) << "replay " << i;
  }
  EXPECT_GT(called.scaler.steps_skipped(), 0);
  EXPECT_GT(called.scaler.steps_ok(), 3);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_P(CudaCapturedUpdate, ReplaysEqualCalls) {
  for (const bool clip : {false, true})
    expect_replays_to_equal_calls(GetParam(), optim::kMasters, DType::f16, clip);
}

TEST_P(CudaCapturedUpdate, ReplaysOfNarrowParametersEqualCalls) {
  expect_replays_to_equal_calls(GetParam(), Value::Map{{"master_weights", "split"}}, DType::bf16, true);
  expect_replays_to_equal_calls(GetParam(), Value::Map{{"stochastic_rounding", true}}, DType::bf16, false);
  if (GetParam().options.contains("state_bits"))
    expect_replays_to_equal_calls(GetParam(), Value::Map{{"state_bits", 8}}, DType::f32, false);
}

}  // namespace
}  // namespace mezzo::amp
