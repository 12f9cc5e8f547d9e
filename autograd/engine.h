// Reverse mode: walks the recorded graph from results to leaves. Gradients are themselves made by ops, so
// with create_graph they can be differentiated again, to any order.
#pragma once

#include <optional>
#include <span>

#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"

namespace mezzo {

namespace autograd {
class Node;
}

/// How a backward runs.
struct BackwardOptions {
  std::optional<bool> retain_graph = {};  ///< keep saved tensors for another backward; default: create_graph
  bool create_graph = false;              ///< record the gradients' own computation, for higher derivatives
};

/// How `grad` runs.
struct GradOptions {
  std::optional<bool> retain_graph = {};
  bool create_graph = false;
  bool allow_unused =
      false;  ///< return undefined tensors for inputs that the outputs do not depend on, instead of throwing
};

/// Adds d(sum_i sum(outputs_i * grad_outputs_i)) / d(leaf) to the `.grad` of every leaf that requires grad. A
/// missing or undefined grad_output stands for 1 and asks for an output of one element. Shapes must match;
/// dtypes are cast to the outputs'. If it throws, no leaf has been touched. Each saved tensor is freed once
/// used, unless retain_graph. With create_graph the leaves' gradients get a history, which in turn holds the
/// leaves (PyTorch warns of the same): all of it lives until zero_grad() or set_grad({}). `grad` makes no
/// such tie. Several threads may run it at once, also into the same leaves: nothing is lost (what is promised
/// stands in docs/architecture.md under "Threads"). Throws AutogradError: an output without history, a freed
/// graph, a saved tensor written to since.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs = {},
              const BackwardOptions& options = {});

/// The same derivatives, returned for the given inputs (leaves or intermediate results) and not accumulated
/// anywhere. Only what lies between is computed. Throws AutogradError for an input that the outputs do not
/// depend on, unless allow_unused.
[[nodiscard]] Tensors grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           std::span<const Tensor> grad_outputs = {}, const GradOptions& options = {});
[[nodiscard]] Tensors grad(const Tensor& output, std::initializer_list<Tensor> inputs,
                           const GradOptions& options = {});

/// Watches backward passes on this thread from a scope: called after each op's gradient, with what it
/// produced for each input in the shape and dtype it is passed on in (undefined: none). Used to find the op
/// that first produced a value that is not finite. Of several the newest that lives is told. They may end in
/// any order, on another thread while no backward runs on theirs, and after their thread.
class BackwardObserver {
 public:
  BackwardObserver();
  virtual ~BackwardObserver();
  BackwardObserver(const BackwardObserver&) = delete;
  BackwardObserver& operator=(const BackwardObserver&) = delete;
  /// What it throws, the backward throws. It may destroy its object: nothing is asked of it after the call.
  virtual void after_vjp(const autograd::Node& node, std::span<const Tensor> gradients) = 0;
  /// The innermost observer of this thread, or nullptr.
  [[nodiscard]] static BackwardObserver* current() noexcept;

 protected:
  /// Who watched before and still does, for observers that pass on what they are told; nullptr: nobody. To be
  /// asked in each call: an older observer may end before this one.
  [[nodiscard]] BackwardObserver* outer() const noexcept;
  /// Ends it before its destructor does.
  void stop() noexcept;

 private:
  detail::OpenScope<BackwardObserver*>* scope_;
};

}  // namespace mezzo
