// The seam for what sits above autograd: a function on this thread that may rewrite an op's inputs before it
// runs and is recorded. Autocast installs itself here, so ops and the engine know nothing of it.
#pragma once

#include <optional>

#include "mezzo/autograd/op.h"

namespace mezzo {

/// One call on its way through the layer.
struct LayerCall {
  const OpInfo& info;
  Inputs inputs;
  bool explicit_dtype;                    ///< the caller chose the result dtype
  SmallVector<Tensor, 4> rewritten = {};  ///< empty: inputs stay as they are; else one tensor per input
  std::optional<DType> run_dtype = {};    ///< see ForwardArgs::run_dtype
};

using InputLayer = void (*)(LayerCall&);

/// What the layer of this thread is and what it knows; a small value that a node keeps so that its backward
/// can run under the same state. `context` belongs to the layer, which must keep it alive as long as the
/// process runs.
struct LayerState {
  InputLayer layer = nullptr;
  std::uint64_t context = 0;
};

/// The state of the calling thread.
[[nodiscard]] LayerState layer_state() noexcept;
void set_layer_state(LayerState state) noexcept;

/// Installs a state for a scope.
class LayerGuard {
 public:
  explicit LayerGuard(LayerState state) noexcept : previous_(layer_state()) { set_layer_state(state); }
  ~LayerGuard() { set_layer_state(previous_); }
  LayerGuard(const LayerGuard&) = delete;
  LayerGuard& operator=(const LayerGuard&) = delete;

 private:
  LayerState previous_;
};

}  // namespace mezzo
