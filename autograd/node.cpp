// How a node is recorded: edges to the makers of its inputs, and saved tensors, whose versions are checked
// when they are used. Long chains of nodes are destroyed in a loop, without recursion.
#include "mezzo/autograd/node.h"

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "mezzo/autograd/progress.h"
#include "mezzo/autograd/region.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel/hold_over_fork.h"
#include "mezzo/ops/cast.h"

namespace mezzo {

namespace {
thread_local autograd::Progress current_progress;
constinit std::mutex mutex_of_places;
[[maybe_unused]] const int places_held_over_fork =
    detail::hold_over_fork([]() -> std::mutex& { return mutex_of_places; });
}  // namespace

namespace autograd {

Progress& progress() noexcept { return current_progress; }

const std::string* interned_place(std::string text) {
  static auto* const texts = new std::unordered_set<std::string>;
  const std::scoped_lock lock(mutex_of_places);
  return &*texts->insert(std::move(text)).first;
}

namespace {

std::atomic<std::uint64_t> next_sequence{0};

// Nodes waiting for destruction on this thread, linked through `next_dead_`. Destroying a node may drop the
// last reference to the next one down a long chain; a list instead of recursion keeps the stack flat.
struct Graveyard {
  Node* top = nullptr;
  bool in_use = false;
};
thread_local Graveyard graveyard;

}  // namespace

Node::Node(const OpInfo& op_info) noexcept
    : info(op_info),
      sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      place(current_progress.place) {}

void Node::destroy() noexcept {
  if (graveyard.in_use) {
    next_dead_ = std::exchange(graveyard.top, this);
    return;
  }
  graveyard.in_use = true;
  delete this;
  while (graveyard.top != nullptr) {
    const Node* const dead = std::exchange(graveyard.top, graveyard.top->next_dead_);
    delete dead;
  }
  graveyard.in_use = false;
}

void Node::free_saved() {
  released = true;
  saved_inputs.clear();
  saved_outputs.clear();
  recomputable = {};
}

namespace {
/// What a region computes again in place of a saved tensor; nullptr: nothing.
const Recomputable* recomputable_of(const Node& node, bool is_output, std::size_t i) {
  if (!node.recomputable) return nullptr;
  return static_cast<const RecomputableSaves&>(*node.recomputable).find(is_output, i);
}

/// The tensor computed again, as if it had been saved.
SavedTensor recomputed(const Recomputable& recomputable) {
  const Recomputable::Value value = recomputable.get();
  return {value.tensor, value.version};
}
}  // namespace

void Node::drop_recomputed() const noexcept {
  if (!recomputable) return;
  for (const auto& entry : static_cast<const RecomputableSaves&>(*recomputable).entries)
    entry.tensor.drop_value();
}

namespace {
/// "f32 [2, 3], a result of mul".
std::string described(const Tensor& tensor) {
  std::string text = std::string(to_string(tensor.dtype())) + " " + to_string(tensor.shape());
  if (const auto& made_by = tensor.impl().grad_fn)
    return text + ", a result of " + std::string(static_cast<const Node&>(*made_by).info.name.value);
  return text + (tensor.requires_grad() ? ", a leaf" : "");
}
}  // namespace

Tensor Node::checked(const SavedTensor& saved, const char* what, std::size_t i) const {
  if (saved.tensor.defined() && saved.tensor.version() != saved.version) {
    throw AutogradError(info.name.value,
                        std::string(what) + " " + std::to_string(i) + " (" + described(saved.tensor) +
                            ") as it was in forward (version " + std::to_string(saved.version) + ")",
                        "version " + std::to_string(saved.tensor.version()),
                        "it was written in place since; write to a clone() or after backward");
  }
  return saved.tensor;
}

namespace {
[[noreturn]] void refuse_released(const OpInfo& info) {
  throw AutogradError("backward", "a graph with its saved values (op " + std::string(info.name.value) + ")",
                      "one that an earlier backward has freed",
                      "pass retain_graph = true to the first backward, or run forward again");
}

[[noreturn]] void refuse_unsaved(const OpInfo& info, const std::string& kind, std::size_t i, bool is_there) {
  throw AutogradError(info.name.value, "an " + kind + " that the op's `saves` names",
                      kind + " " + std::to_string(i),
                      is_there ? "add it there: save_" + kind + "s(" + std::to_string(i) + ")"
                               : "the op has no such " + kind);
}
/// The version of an input that was given and that the op's `saves` does not name.
constexpr std::uint32_t kNotNamed = ~0U;
}  // namespace

bool Node::saves_input(std::size_t i) const noexcept {
  return i < saved_inputs.size() &&
         (saved_inputs[i].tensor.defined() || saved_inputs[i].version != kNotNamed);
}

Tensor Node::unpack_input(std::size_t i) const {
  if (released) refuse_released(info);
  if (!saves_input(i)) refuse_unsaved(info, "input", i, i < saved_inputs.size());
  if (const Recomputable* const again = recomputable_of(*this, false, i))
    return checked(recomputed(*again), "input", i);
  return checked(saved_inputs[i], "input", i);
}

Tensor Node::unpack_output(std::size_t i) const {
  if (released) refuse_released(info);
  const Recomputable* const again = recomputable_of(*this, true, i);
  if (again == nullptr && (i >= saved_outputs.size() || !saved_outputs[i].tensor.defined())) {
    refuse_unsaved(info, "output", i, i < saved_outputs.size());
  }
  const Tensor kept = checked(again != nullptr ? recomputed(*again) : saved_outputs[i], "output", i);
  Tensor result = kept.detach();
  result.impl().grad_fn = Ref<RefCounted>(const_cast<Node*>(this));
  result.impl().output_index = static_cast<std::uint32_t>(i);
  return result;
}

Edge edge_to(const Tensor& tensor) {
  Edge edge;
  if (!tensor.defined()) return edge;
  edge.dtype = edge.wanted = tensor.dtype();
  edge.shape = tensor.shape();
  edge.device = tensor.device();
  if (!tensor.requires_grad()) return edge;
  const TensorImpl& impl = tensor.impl();
  if (!impl.grad_fn) {
    edge.target = tensor.ref();
    edge.leaf = true;
    return edge;
  }
  edge.target = impl.grad_fn;
  edge.index = impl.output_index;
  // Behind a cast the gradient is wanted in the dtype before the cast: whoever can produce that saves a
  // rounding and a pass. Not in a narrower one, though: several gradients may meet here, and each would be
  // rounded before they are added.
  const Node& maker = *edge.node();
  if (&maker.info != &to_dtype_descriptor().info || !is_floating(maker.edges[0].dtype)) return edge;
  const DType before = maker.edges[0].wanted;
  const bool is_wide = !is_float8(before) && (is_float8(edge.dtype) || promote(before, edge.dtype) == before);
  if (!is_wide) return edge;
  edge.wanted = before;
  if (maker.edges[0].leaf && maker.for_one_call) {
    edge.target = Ref<RefCounted>(maker.edges[0].target);
    edge.leaf = true;
    edge.index = 0;
  }
  return edge;
}

namespace {
[[noreturn, gnu::cold]] void refuse_inference(std::string_view op, std::size_t i, const Tensor& input) {
  throw AutogradError(op, "a normal tensor as input " + std::to_string(i) + ", which backward needs",
                      "an inference tensor of shape " + to_string(input.shape()),
                      "make it outside of InferenceMode, or clone() it there");
}

/// In a region: what a node has saved but leaves that require grad is not kept, but computed again.
[[gnu::cold]] void leave_to_region(RegionScope& scope, Node& node, Inputs inputs) {
  const auto made = make_ref<RecomputableSaves>();
  const auto leave = [&](SavedTensor& saved, bool is_output, std::size_t i) {
    if (!saved.tensor.defined() || saved.tensor.impl().requires_grad) return;
    const SavedName name{node.info.name.value, is_output, static_cast<std::uint32_t>(i), &node.info,
                         node.sequence};
    if (scope.recomputes) {
      scope.region.deliver(name, saved.tensor);
      return;
    }
    const std::uint32_t slot = scope.region.add_slot(name, saved.tensor);
    made->entries.push_back({name, Recomputable(Ref<Region>(&scope.region), slot, saved.tensor)});
    saved.tensor = {};
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leave(node.saved_inputs[i], false, i);
    const Tensor& input = inputs[i].get();
    if (!scope.recomputes && input.defined() && input.impl().requires_grad) scope.region.note_leaf(input);
  }
  for (std::size_t i = 0; i < node.saved_outputs.size(); ++i) leave(node.saved_outputs[i], true, i);
  if (!made->entries.empty()) node.recomputable = made;
}
}  // namespace

void attach(const Ref<Node>& node, Inputs inputs, Outputs& outputs, Saves saves) {
  std::uint32_t wanted = 0;  // the saved inputs whose gradients are
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node->edges.push_back(edge_to(inputs[i]));
    if (node->edges.back().target && is_in(saves.inputs, i)) wanted |= set_of(i);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i].get();
    SavedTensor& saved = node->saved_inputs.emplace_back();
    const bool read = !is_in(saves.factors, i) || (wanted & ~set_of(i)) != 0;
    if (input.defined() && !is_in(saves.inputs, i)) saved.version = kNotNamed;
    if (!read || !input.defined() || !is_in(saves.inputs, i)) continue;
    if (input.is_inference()) [[unlikely]]
      refuse_inference(node->info.name.value, i, input);
    // A weight's 16-bit copy for this call (Node::for_one_call) is nobody else's, and so it keeps its
    // history.
    const bool only_here = node->edges[i].leaf && !input.is_leaf();
    saved = {only_here ? input : with_present_history(input), input.version()};
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    for (const TensorRef& input : inputs) {
      if (input->defined() && input->is_same(output))
        output = output.detach();  // an op that returned its input
    }
    node->outputs.push_back({output.shape(), output.dtype(), output.device()});
    const bool keep = is_in(saves.outputs, i);
    node->saved_outputs.push_back(keep ? SavedTensor{output.detach(), output.version()} : SavedTensor{});
    if (!is_floating(output.dtype())) continue;
    output.impl().grad_fn = node;
    output.impl().output_index = static_cast<std::uint32_t>(i);
  }
  if (RegionScope* const scope = current_region(); scope != nullptr) [[unlikely]]
    leave_to_region(*scope, *node, inputs);
}

}  // namespace autograd
}  // namespace mezzo
