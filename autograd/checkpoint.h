// Activation checkpointing: a part of forward keeps none of what its ops would save for backward, and runs
// again when backward needs it. A stack of blocks then holds the inputs of all blocks and the inside of one.
//   x = autograd::checkpoint([&](const Tensor& h) { return gelu(linear(h, w)); }, x);
// nn/checkpoint.h has the same for modules.
#pragma once

#include <array>
#include <concepts>
#include <span>
#include <utility>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/function.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

namespace detail {

/// The first run of a checkpointed function, as long as it lives.
class CheckpointedCall : NoCopy {
 public:
  using Again = Function<void(std::span<const Tensor>)>;
  CheckpointedCall(Again again, std::span<const Tensor> inputs);
  ~CheckpointedCall();
  /// The function has returned.
  void returned() const;

 private:
  struct State;
  State* state_;  // owned
};

/// f(inputs[0], inputs[1], ...).
template <class F, std::size_t... I>
decltype(auto) call_with(F& f, [[maybe_unused]] std::span<const Tensor> inputs,
                         std::index_sequence<I...> /*all*/) {
  return f(inputs[I]...);
}

}  // namespace detail

namespace autograd {

/// fn(inputs...), of which the graph keeps the inputs (tensors, which may be undefined) and the parameters
/// that fn reads, and nothing that fn makes. When a backward needs more, it runs a copy of fn again on the
/// same inputs, recorded, under the autocast state and overrides of the first run and with the same random
/// numbers, whatever the generators have come to meanwhile; it ends that run once it has what it needs.
/// Results and all gradients, of inputs and of tensors that fn captures, are the same bits as without
/// checkpointing. fn may return anything that holds tensors.
///
/// Regions nest: the outer region computes the inputs of the inner region again. Also supported: `grad` to
/// any tensors, create_graph to any order, retain_graph (each backward runs fn again), hooks of tensors,
/// backwards on another thread, and captured steps. Without recording it is a plain call.
///
/// fn must do the same each time: modes of modules that it calls and requires_grad of what it reads must not
/// change before backward. It may be copied. What it captures by reference must live until backward has run:
/// capture the locals of an enclosing function by value, also of an enclosing fn. Draws are to be made on the
/// calling thread. Side effects happen twice unless fn asks `is_recomputing`: batch_norm and instance_norm
/// move running statistics, embedding applies max_norm, and spectral_norm iterates, in the first run only.
///
/// Throws: what fn throws; AutogradError when fn writes to an input in place. A backward throws what fn
/// throws, and AutogradError when what fn saves or draws is not what it was, as far as numbers, ops, shapes,
/// dtypes and devices tell, or when an input, a saved tensor or a parameter that fn reads was written in
/// place since forward (a parameter also where only the second run reads it).
/// Source: torch.utils.checkpoint.checkpoint(use_reentrant=False).
template <class F, std::convertible_to<const Tensor&>... T>
requires std::copy_constructible<F>
auto checkpoint(F fn, const T&... inputs) {
  using All = std::index_sequence_for<T...>;
  const std::array<Tensor, sizeof...(T)> all{static_cast<const Tensor&>(inputs)...};
  const std::span<const Tensor> list(all.data(), all.size());
  if (!grad_enabled()) return mezzo::detail::call_with(fn, list, All());
  const mezzo::detail::CheckpointedCall call(
      [fn](std::span<const Tensor> again) mutable {
        static_cast<void>(mezzo::detail::call_with(fn, again, All()));
      },
      list);
  auto result = mezzo::detail::call_with(fn, list, All());
  call.returned();
  return result;
}

/// Whether a checkpointed function of this thread runs again for backward, for functions with side effects
/// that are meant once.
[[nodiscard]] bool is_recomputing() noexcept;

/// make(), whose result is kept: when a checkpointed function around the call runs again, it gets the same
/// tensor, and `make` is not called. For what another run would make differently. Outside of checkpoint it is
/// a plain call. The result has no history.
[[nodiscard]] Tensor keep_for_recomputation(const mezzo::detail::Function<Tensor()>& make);

}  // namespace autograd

}  // namespace mezzo
