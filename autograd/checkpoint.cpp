// The first run of a checkpointed function: a region with its scopes.
#include "mezzo/autograd/checkpoint.h"

#include "mezzo/autograd/region.h"
#include "mezzo/core/error.h"

namespace mezzo {

struct detail::CheckpointedCall::State {
  State(Again again, std::span<const Tensor> given)
      : region(make_ref<autograd::Region>(std::move(again), given)),
        inputs(given),
        draws(*region),
        scope(*region, false) {}

  Ref<autograd::Region> region;
  std::span<const Tensor> inputs;
  autograd::FirstDraws draws;
  autograd::RegionScope scope;
};

detail::CheckpointedCall::CheckpointedCall(Again again, std::span<const Tensor> inputs)
    : state_(new State(std::move(again), inputs)) {}
detail::CheckpointedCall::~CheckpointedCall() { delete state_; }
void detail::CheckpointedCall::returned() const { state_->region->finish(state_->inputs); }

namespace autograd {

bool is_recomputing() noexcept {
  const RegionScope* const scope = current_region();
  return scope != nullptr && scope->inside_recomputation;
}

Tensor keep_for_recomputation(const mezzo::detail::Function<Tensor()>& make) {
  if (make == nullptr) {
    throw ValueError("keep_for_recomputation", "a function that makes a tensor", "an empty one",
                     "pass a lambda");
  }
  return kept_result(make);
}

}  // namespace autograd

}  // namespace mezzo
