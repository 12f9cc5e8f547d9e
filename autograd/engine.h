// Reverse mode: walks the recorded graph from results to leaves. Gradients are themselves made by ops, so
// with create_graph they can be differentiated again, to any order.
#pragma once

#include <concepts>
#include <optional>
#include <span>

#include "mezzo/autograd/op.h"
#include "mezzo/core/scope.h"
#include "mezzo/core/tensor.h"

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
/// stands in docs/architecture.md under "Threads"). Throws: AutogradError: an output without history, a freed
/// graph, a saved tensor written to since.
void backward(TensorList outputs, TensorList grad_outputs = {}, const BackwardOptions& options = {});

/// The gradients that backward() computes, returned for the given inputs (leaves or intermediate results) and
/// not accumulated anywhere. Only gradients on the way to these inputs are computed. Throws: AutogradError
/// for an input that the outputs do not depend on, unless allow_unused.
[[nodiscard]] Tensors grad(TensorList outputs, TensorList inputs, TensorList grad_outputs = {},
                           const GradOptions& options = {});
/// grad() with options and no grad_outputs. (A template, so that {} means grad_outputs.)
template <std::same_as<GradOptions> O = GradOptions>
[[nodiscard]] Tensors grad(TensorList outputs, TensorList inputs, const O& options) {
  return grad(outputs, inputs, {}, options);
}

/// Watches the backward passes of its thread while it lives. It is called after each op's gradient function,
/// with the gradient of each input in the shape and dtype in which it is passed on (undefined: none). Anomaly
/// detection finds with it the op that first produced a value that is not finite. Of several observers the
/// newest that lives is called. They may end in any order, on another thread while no backward runs on the
/// thread that they watch, and after that thread.
class BackwardObserver : mezzo::detail::NoCopy {
 public:
  BackwardObserver();
  virtual ~BackwardObserver();
  /// Its exceptions pass on to the caller of backward(). It may destroy its own object, which is not used
  /// after the call.
  virtual void after_vjp(const autograd::Node& node, std::span<const Tensor> gradients) = 0;
  /// The innermost observer of this thread, or nullptr.
  [[nodiscard]] static BackwardObserver* current() noexcept;

 protected:
  /// The observer that was there before this one and still lives, or nullptr: observers that nest pass their
  /// calls on to it. Ask anew in each call, as an older observer may end first.
  [[nodiscard]] BackwardObserver* outer() const noexcept;
  /// Ends it before its destructor does.
  void stop() noexcept;

 private:
  detail::OpenScope<BackwardObserver*>* scope_;
};

}  // namespace mezzo
