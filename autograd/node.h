// The recorded graph: a node per differentiable call, with edges to where its inputs came from and the
// tensors its gradient needs. Nodes never own the tensors they made (saved outputs are kept without history),
// so there are no cycles.
#pragma once

#include <span>
#include <string>

#include "mezzo/autograd/input_hook.h"
#include "mezzo/autograd/op.h"

namespace mezzo::autograd {

class Node;

/// Where the gradient of one input goes: to an output of another node, to a leaf, or nowhere.
struct Edge {
  Ref<RefCounted> target;  ///< Node or (leaf) TensorImpl; empty when the input needs no gradient
  bool leaf = false;
  std::uint32_t index = 0;    ///< output of the target node
  DType dtype = DType::f32;   ///< dtype of the input: the gradient arrives in it ...
  DType wanted = DType::f32;  ///< ... or in the dtype that stands behind a cast the input came from
  Device device;
  Shape shape;

  [[nodiscard]] Node* node() const noexcept;
  [[nodiscard]] TensorImpl* leaf_impl() const noexcept { return static_cast<TensorImpl*>(target.get()); }
};

/// A tensor kept for backward and the version it had; reading it later checks that nobody wrote to it.
struct SavedTensor {
  Tensor tensor;
  std::uint32_t version = 0;
};

/// Shape and kind of an output, for zeros where a gradient is missing.
struct OutputInfo {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
};

/// A recorded call.
class Node : public RefCounted {
 public:
  explicit Node(const OpInfo& op_info) noexcept;

  /// Gradients of the inputs, given the gradients of the outputs (undefined: none). `needs` has bit i set
  /// when input i needs one.
  [[nodiscard]] virtual Gradients apply(std::span<const Tensor> grads, std::span<const bool> needs) = 0;
  /// Drops the saved tensors; a later apply throws.
  void free_saved();
  /// Drops the tensors that were computed again for it in a region; a later apply computes it anew.
  void drop_recomputed() const noexcept;
  /// A saved input with its history, or output with this node as its history. Throws: AutogradError if it was
  /// released, not saved, or written to since.
  [[nodiscard]] Tensor unpack_input(std::size_t i) const;
  [[nodiscard]] Tensor unpack_output(std::size_t i) const;
  /// Whether input i was saved or is absent: false where the op's `saves` leaves it out.
  [[nodiscard]] bool saves_input(std::size_t i) const noexcept;

  const OpInfo& info;
  const std::uint64_t sequence;  ///< grows with time: a node's inputs have smaller numbers
  SmallVector<Edge, 3> edges;
  SmallVector<OutputInfo, 1> outputs;
  SmallVector<SavedTensor, 3> saved_inputs;  ///< empty, of version kNotNamed, where `saves` leaves one out
  SmallVector<SavedTensor, 1> saved_outputs;
  Ref<RefCounted>
      recomputable;  ///< RecomputableSaves (autograd/region.h): what it has not saved, in a region
  std::optional<DType> run_dtype;
  InputHookState input_hook;
  OnceRef<RefCounted> hooks;  ///< NodeHooks (autograd_meta.h), made at first need
  bool released = false;
  /// The cast of a weight that autocast hands to one call of an op: nobody else has its result, so no hook
  /// and no request for its gradient can come, and edges lead past it to the leaf. That spares backward a
  /// node for every weight.
  bool for_one_call = false;
  /// Where in the tree of modules forward ran, when anomalies are looked for (nn/anomaly.h); lives as long as
  /// the process.
  const std::string* place = nullptr;

 protected:
  void destroy() noexcept override;

 private:
  [[nodiscard]] Tensor checked(const SavedTensor& saved, const char* what, std::size_t i) const;

  Node* next_dead_ = nullptr;  ///< while it waits for destruction
};

inline Node* Edge::node() const noexcept { return static_cast<Node*>(target.get()); }

/// The edge to where a tensor came from; without target when it does not require grad.
[[nodiscard]] Edge edge_to(const Tensor& tensor);

/// Fills a new node with edges and saved tensors and makes it the history of the floating outputs.
void attach(const Ref<Node>& node, Inputs inputs, Outputs& outputs, Saves saves);

}  // namespace mezzo::autograd
