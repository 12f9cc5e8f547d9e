// Receives the gradients of leaves in place of `.grad`, each as soon as it is complete, while the backward
// goes on: data-parallel training reduces them meanwhile (dist/data_parallel.h). Internal.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "mezzo/autograd/node.h"
#include "mezzo/core/ref_counted.h"
#include "mezzo/core/tensor.h"

namespace mezzo::autograd {

/// Receives the gradients of some leaves from backward(); grad() does not ask it. The calls of one backward
/// come on its thread, without history and outside of autocast.
class GradientReceiver : public RefCounted {
 public:
  /// A backward begins that can reach the leaves with these indices, in rising order.
  virtual void begin(std::span<const std::size_t> leaves) = 0;
  /// The complete gradient of a leaf, in its shape and dtype, after its hooks. Its order is the same on every
  /// run of one graph: leaves come in the order in which backward completes them.
  virtual void receive(std::size_t leaf, Tensor gradient) = 0;
  /// All gradients of this backward have come: called where backward writes `.grad` of other leaves. Leaves
  /// that were announced and did not come have none.
  virtual void finish() = 0;
  /// The backward has thrown, or finish() has.
  virtual void abandon() noexcept = 0;
};

/// From the next backward on the gradients of `leaf` go to `receiver`, as number `index`. Throws: StateError
/// for a leaf that has a receiver.
void set_gradient_receiver(const Tensor& leaf, Ref<GradientReceiver> receiver, std::size_t index);
/// Gradients of `leaf` go to `.grad` again.
void clear_gradient_receiver(const Tensor& leaf) noexcept;

/// Which leaves of one backward have a receiver, and how many edges of its graph lead to each: a leaf is
/// complete when all of them have been passed.
class LeafArrivals : mezzo::detail::NoCopy {
 public:
  /// Whether any leaf of the process has a receiver: without one a backward has nothing to count.
  [[nodiscard]] static bool are_needed() noexcept;

  LeafArrivals() = default;
  /// Abandons what has not been finished.
  ~LeafArrivals();

  /// Looks through the graph behind these edges and begins with the receivers that it finds.
  void begin(std::span<const Edge> roots);
  [[nodiscard]] bool empty() const noexcept { return leaves_.empty(); }
  /// One edge to a leaf has been passed, with or without a gradient. Returns whether it was the last one to a
  /// leaf with a receiver.
  [[nodiscard]] bool pass(const TensorImpl& leaf);
  [[nodiscard]] bool has(const TensorImpl& leaf) const { return leaves_.contains(&leaf); }
  void receive(const TensorImpl& leaf, Tensor gradient);
  void finish();

 private:
  struct Leaf {
    GradientReceiver* receiver = nullptr;
    std::size_t index = 0;
    std::size_t edges = 0;
  };
  void count(const Edge& edge);

  std::unordered_map<const TensorImpl*, Leaf> leaves_;
  std::vector<Ref<GradientReceiver>> receivers_;  ///< those that have begun and not finished
};

}  // namespace mezzo::autograd
