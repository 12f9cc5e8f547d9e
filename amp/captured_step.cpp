// The order of CapturedStep's calls: the first calls run eagerly, the next is captured into a CUDA graph,
// later ones replay it. On the CPU, and in a build without CUDA, every call runs eagerly.
#include "mezzo/amp/captured_step.h"

#include <optional>
#include <string>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/backend.h"
#include "mezzo/core/cuda/graph.h"
#include "mezzo/core/error.h"

namespace mezzo::amp {

struct CapturedStep::State {
  Device device;
  mezzo::detail::Function<Tensor()> step;
  int warmup;
  Tensor result;
  std::optional<cuda::Graph> graph;
};

CapturedStep::CapturedStep(Device device, mezzo::detail::Function<Tensor()> step, int warmup) {
  if (!step) throw ValueError("CapturedStep", "a step", "an empty function", "pass the body of the loop");
  if (warmup < 1) {
    throw ValueError("CapturedStep", "at least 1 call before recording", std::to_string(warmup),
                     "optimizer states are made in the first step");
  }
  static_cast<void>(backend(device));
  state_ = new State;
  state_->device = device;
  state_->step = std::move(step);
  state_->warmup = warmup;
}

CapturedStep::~CapturedStep() { delete state_; }

bool CapturedStep::is_recorded() const noexcept { return state_->graph.has_value(); }

const Tensor& CapturedStep::operator()() {
  if (state_->device.is_cuda() && state_->warmup == 0) {
    if (!state_->graph) {
      Tensor result;
      state_->graph.emplace(state_->device, [&] { result = state_->step(); });
      state_->result = std::move(result);
    }
    ActivityListener* const listener = activity_listener();
    if (listener == nullptr || !listener->takes_eager_step()) {
      state_->graph->replay();
    } else if (const Tensor result = state_->step(); result.defined()) {
      const NoGrad no_grad;
      state_->result.detach().copy_(result);
    }
    return state_->result;
  }
  state_->result = state_->step();
  if (state_->warmup > 0) --state_->warmup;
  return state_->result;
}

}  // namespace mezzo::amp
