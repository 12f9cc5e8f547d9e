// The state of autograd on this thread, for observers: anomaly detection (nn/anomaly.h), traces
// (amp/trace.h), warnings.
#pragma once

#include <span>
#include <string>

#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

class Node;

struct Progress {
  /// The Node::place of nodes that are recorded now: set by observers of modules. In backward the place of
  /// the node at work, so that second derivatives know where they come from.
  const std::string* place = nullptr;
  bool in_backward = false;
  /// The node whose gradients are being computed; nullptr between nodes, where gradients are added up and
  /// hooks run.
  const Node* node = nullptr;
  /// The gradients it was given, after hooks. Only during BackwardObserver::after_vjp.
  std::span<const Tensor> incoming = {};
};

/// One copy of each text for Node::place, which lives as long as the process, as nodes may outlive modules.
[[nodiscard]] const std::string* interned_place(std::string text);

/// The Progress of the calling thread.
[[nodiscard]] Progress& progress() noexcept;

/// Marks a backward while it lives and restores the state before it, so a gradient function may run a
/// backward of its own.
class BackwardScope : mezzo::detail::NoCopy {
 public:
  BackwardScope() noexcept : before_(progress()) { progress() = {.in_backward = true}; }
  ~BackwardScope() { progress() = before_; }

 private:
  Progress before_;
};

}  // namespace mezzo::autograd
