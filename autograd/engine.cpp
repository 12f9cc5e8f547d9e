// The walk of a backward: nodes leave a heap latest first, gradients that meet are added, and each is
// fitted to the shape and dtype of its input. backward() adds results to .grad; grad() visits only what
// leads to the inputs asked for.
#include "mezzo/autograd/engine.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/autograd/grad_mode.h"
#include "mezzo/autograd/gradient_receiver.h"
#include "mezzo/autograd/node.h"
#include "mezzo/autograd/progress.h"
#include "mezzo/autograd/recorded/gradients.h"
#include "mezzo/autograd/region.h"
#include "mezzo/autograd/vjp_args.h"
#include "mezzo/core/activity.h"
#include "mezzo/core/error.h"
#include "mezzo/core/memory/scope_list.h"
#include "mezzo/core/warning.h"
#include "mezzo/ops/ops.h"

namespace mezzo {

namespace {

using autograd::AutogradMeta;
using autograd::Edge;
using autograd::GradHooks;
using autograd::Node;

template <class K, class V>
using PooledMap =
    std::unordered_map<K, V, std::hash<K>, std::equal_to<K>, pool::Allocator<std::pair<const K, V>>>;
template <class T>
using PooledVector = std::vector<T, pool::Allocator<T>>;

constinit detail::PerThread<detail::ScopeList<BackwardObserver*>> backward_observers;

/// Brings a gradient into the shape and dtype of the input it belongs to: sums over broadcast dims, casts,
/// and lets the dtype wanted behind a cast pass. The one place where either happens. A sum may exceed what
/// its terms' dtype holds, so where a wider dtype is wanted it is rounded to that one only.
Tensor fit(Tensor gradient, const Edge& edge, const OpInfo& op) {
  if (!is_floating(gradient.dtype())) {
    throw AutogradError(op.name.value, "a floating gradient", to_string(gradient.dtype()),
                        "mend the op's vjp");
  }
  if (gradient.shape() != edge.shape) {
    try {
      gradient = sum_to(gradient, edge.shape, promote(gradient.dtype(), edge.wanted));
    } catch (const ShapeError&) {
      throw AutogradError(op.name.value, "a gradient of its input's shape, " + to_string(edge.shape),
                          to_string(gradient.shape()), "mend the op's vjp");
    }
  }
  if (gradient.dtype() != edge.dtype && gradient.dtype() != edge.wanted) gradient = gradient.to(edge.dtype);
  return gradient;
}

/// A copy of a list of hooks, which hooks or other threads may change while they run.
template <class H>
auto copied_list(H& hooks) {
  const std::scoped_lock lock(hooks.mutex);
  return hooks.list;
}

Tensor run_hooks(GradHooks& hooks, Tensor gradient) {
  const auto list = copied_list(hooks);
  for (const auto& [id, hook] : list) {
    Tensor replaced = hook(gradient);
    if (!replaced.defined()) continue;
    if (replaced.shape() != gradient.shape()) {
      throw ShapeError("hook", "a gradient of shape " + to_string(gradient.shape()),
                       to_string(replaced.shape()),
                       "return the same shape, or an undefined tensor to change nothing");
    }
    if (replaced.dtype() != gradient.dtype()) {
      throw DTypeError("hook", "a gradient of dtype " + to_string(gradient.dtype()),
                       to_string(replaced.dtype()), "convert it with to(dtype)");
    }
    if (!(replaced.device() == gradient.device())) {
      throw DeviceError("hook", "a gradient on " + to_string(gradient.device()), to_string(replaced.device()),
                        "copy it with to(device)");
    }
    gradient = std::move(replaced);
  }
  return gradient;
}

/// The hooks of a node's results, on the gradients that arrived.
void run_node_hooks(autograd::NodeHooks& hooks, std::span<Tensor> grads) {
  for (const auto& [index, list] : copied_list(hooks)) {
    if (grads[index].defined()) grads[index] = run_hooks(*list, std::move(grads[index]));
  }
}

/// One walk over the graph.
class Walk {
 public:
  Walk(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, bool retain, bool create);
  /// Limits the walk to what leads to `inputs` and collects their gradients.
  void capture(std::span<const Tensor> inputs);
  /// Leaves with a receiver give their gradients there, as soon as they are complete.
  void serve_receivers();
  void run();
  void accumulate_into_leaves();
  [[nodiscard]] Tensors captured(std::span<const Tensor> inputs, bool allow_unused);

 private:
  using Slots = SmallVector<Tensor, 1>;
  struct Target {
    const TensorImpl* leaf = nullptr;
    const Node* node = nullptr;
    std::uint32_t index = 0;
    Tensor gradient;
  };

  void send(const Edge& edge, Tensor gradient);
  /// The gradient of a leaf as it will be added to `.grad`.
  [[nodiscard]] static Tensor finished(const Edge& edge, Tensor gradient);
  /// An edge was passed: if it was the last one to a leaf with a receiver, that one gets the gradient.
  void pass(const Edge& edge);
  void receive(std::pair<Edge, Tensor>& leaf);
  void process(Node& node, Slots grads);
  [[nodiscard]] bool needed(const Edge& edge) const;

  bool retain_, create_;
  bool limited_ = false;
  PooledVector<Target> targets_;
  PooledMap<const Node*, bool> needed_;  // limited walks: whether a node leads to a target
  PooledMap<Node*, Slots> pending_;      // gradients that arrived at nodes still to come
  PooledVector<Node*> heap_;             // these nodes, latest first
  PooledVector<std::pair<Edge, Tensor>> leaves_;
  PooledMap<const TensorImpl*, std::size_t> leaf_slot_;
  PooledVector<std::pair<Tensor, Tensor>> seeds_;
  autograd::LeafArrivals arrivals_;
};

Walk::Walk(std::span<const Tensor> outputs, std::span<const Tensor> grad_outputs, bool retain, bool create)
    : retain_(retain), create_(create) {
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size()) {
    throw AutogradError("backward", "one gradient per output (" + std::to_string(outputs.size()) + ")",
                        std::to_string(grad_outputs.size()), "pass an undefined tensor where 1 is meant");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (!output.defined() || !output.requires_grad()) {
      throw AutogradError("backward", "an output that requires grad",
                          output.defined() ? "one without history" : "an undefined tensor",
                          "call requires_grad_() on the leaves, and do not compute it under NoGrad");
    }
    Tensor gradient = grad_outputs.empty() ? Tensor() : grad_outputs[i];
    if (!gradient.defined()) {
      if (output.numel() != 1) {
        throw AutogradError("backward", "an output of one element, or a gradient for it",
                            to_string(output.shape()),
                            "reduce it, for example with sum(), or pass a gradient");
      }
      gradient = ones_like(output);
    }
    if (gradient.shape() != output.shape()) {
      throw ShapeError("backward", "a gradient of shape " + to_string(output.shape()),
                       to_string(gradient.shape()), "give it the shape of the output");
    }
    seeds_.emplace_back(output, gradient.to(output.dtype()));
  }
}

bool Walk::needed(const Edge& edge) const {
  if (!edge.target) return false;
  if (!limited_) return true;
  if (edge.leaf) {
    return std::any_of(targets_.begin(), targets_.end(),
                       [&](const Target& t) { return t.leaf == edge.leaf_impl(); });
  }
  const auto found = needed_.find(edge.node());
  if (found != needed_.end() && found->second) return true;
  return std::any_of(targets_.begin(), targets_.end(),
                     [&](const Target& t) { return t.node == edge.node() && t.index == edge.index; });
}

void Walk::capture(std::span<const Tensor> inputs) {
  limited_ = true;
  for (const Tensor& input : inputs) {
    if (!input.defined() || !input.requires_grad()) {
      throw AutogradError("grad", "inputs that require grad", "one that does not",
                          "call requires_grad_() before forward");
    }
    const TensorImpl& impl = input.impl();
    if (impl.grad_fn)
      targets_.push_back({nullptr, static_cast<const Node*>(impl.grad_fn.get()), impl.output_index, {}});
    else
      targets_.push_back({&impl, nullptr, 0, {}});
  }
  PooledVector<Node*> stack, reached;
  for (const auto& [output, gradient] : seeds_) {
    if (output.impl().grad_fn) stack.push_back(static_cast<Node*>(output.impl().grad_fn.get()));
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (!needed_.emplace(node, false).second) continue;
    reached.push_back(node);
    for (const Edge& edge : node->edges) {
      if (edge.target && !edge.leaf) stack.push_back(edge.node());
    }
  }
  // Inputs of a node have smaller sequence numbers, so one pass in rising order settles everything.
  std::sort(reached.begin(), reached.end(),
            [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  for (Node* node : reached) {
    needed_[node] =
        std::any_of(node->edges.begin(), node->edges.end(), [&](const Edge& e) { return needed(e); });
  }
}

void Walk::send(const Edge& edge, Tensor gradient) {
  if (edge.leaf) {
    if (gradient.dtype() != edge.wanted) gradient = gradient.to(edge.wanted);
    const auto [found, fresh] = leaf_slot_.emplace(edge.leaf_impl(), leaves_.size());
    if (fresh)
      leaves_.emplace_back(edge, std::move(gradient));
    else
      leaves_[found->second].second = add(leaves_[found->second].second, gradient);
    return;
  }
  Node* node = edge.node();
  const auto [found, fresh] = pending_.try_emplace(node);
  if (fresh) {
    found->second.resize(node->outputs.size());
    heap_.push_back(node);
    std::push_heap(heap_.begin(), heap_.end(),
                   [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  }
  Tensor& slot = found->second[edge.index];
  slot = slot.defined() ? add(slot, gradient) : std::move(gradient);
}

void Walk::run() {
  const NoInputHook no_autocast;
  const detail::GradModeFrame mode(create_);
  for (auto& [output, gradient] : seeds_) send(autograd::edge_to(output), std::move(gradient));
  for (const auto& [output, gradient] : seeds_) pass(autograd::edge_to(output));
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(),
                  [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
    Node* node = heap_.back();
    heap_.pop_back();
    const auto found = pending_.find(node);
    Slots grads = std::move(found->second);
    pending_.erase(found);
    process(*node, std::move(grads));
  }
  for (auto& leaf : leaves_) {
    if (arrivals_.has(*leaf.first.leaf_impl()))
      receive(leaf);
    else
      leaf.second = finished(leaf.first, std::move(leaf.second));
  }
}

Tensor Walk::finished(const Edge& edge, Tensor gradient) {
  gradient = fit(std::move(gradient), edge, OpInfo{.name = "backward", .category = Category::passthrough});
  const TensorImpl& leaf = *edge.leaf_impl();
  if (leaf.dtype != edge.wanted) {
    throw AutogradError("backward", "leaves in the dtype that forward saw, " + to_string(edge.wanted),
                        to_string(leaf.dtype), "the leaf was converted since; run forward again");
  }
  const AutogradMeta* const meta = autograd::meta_of(leaf);
  GradHooks* const hooks = meta != nullptr ? meta->hooks.get() : nullptr;
  return hooks != nullptr ? run_hooks(*hooks, std::move(gradient)) : gradient;
}

void Walk::serve_receivers() {
  if (!autograd::LeafArrivals::are_needed()) return;
  PooledVector<Edge> roots;
  for (const auto& [output, gradient] : seeds_) roots.push_back(autograd::edge_to(output));
  arrivals_.begin(roots);
  if (create_ && !arrivals_.empty()) {
    throw AutogradError("backward", "gradients without history of a DataParallel's parameters",
                        "create_graph = true", "take higher derivatives by grad(), and add them to the loss");
  }
}

void Walk::pass(const Edge& edge) {
  if (arrivals_.empty() || !edge.leaf || !arrivals_.pass(*edge.leaf_impl())) return;
  const auto found = leaf_slot_.find(edge.leaf_impl());
  if (found != leaf_slot_.end()) receive(leaves_[found->second]);
}

void Walk::receive(std::pair<Edge, Tensor>& leaf) {
  if (!leaf.second.defined()) return;  // it was received before
  arrivals_.receive(*leaf.first.leaf_impl(), finished(leaf.first, std::exchange(leaf.second, Tensor())));
}

void Walk::process(Node& node, Slots grads) {
  if (RefCounted* const hooks = node.hooks.get())
    run_node_hooks(static_cast<autograd::NodeHooks&>(*hooks), {grads.data(), grads.size()});
  for (Target& target : targets_) {
    if (target.node == &node) target.gradient = grads[target.index];
  }
  if (limited_ && !needed_[&node]) return;
  SmallVector<bool, 8> needs;
  for (const Edge& edge : node.edges) needs.push_back(needed(edge));
  autograd::Progress& progress = autograd::progress();
  progress.node = &node;
  progress.place = node.place;
  Gradients gradients;
  {
    const Activity activity(ActivityKind::gradient, node.info.name.value, &node);
    // A node that asked for it sees the autocast state of its forward; all others see none.
    const InputHookGuard hook(node.info.runs_under_autocast ? node.input_hook : InputHookState{});
    try {
      gradients =
          node.apply(std::span<const Tensor>(grads.data(), grads.size()), {needs.data(), needs.size()});
    } catch (const AutogradError&) {
      throw;  // these two say which op they are about
    } catch (const StateError&) {
      throw;
    } catch (Error& error) {
      if (!node.info.name.value.starts_with(error.op()))
        error.set_place("the gradient of " + std::string(node.info.name.value));
      throw;
    }
  }
  if (gradients.size() != node.edges.size()) {
    throw AutogradError(node.info.name.value, std::to_string(node.edges.size()) + " gradients, one per input",
                        std::to_string(gradients.size()), "mend the op's vjp");
  }
  if (BackwardObserver::current() == nullptr) grads.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (needs[i] && gradients[i].defined())
      gradients[i] = fit(std::move(gradients[i]), node.edges[i], node.info);
    else
      gradients[i] = Tensor();
  }
  // After fitting: a gradient that overflows in the cast to its input's dtype is this op's.
  if (BackwardObserver* const observer = BackwardObserver::current(); observer != nullptr) {
    progress.incoming = {grads.data(), grads.size()};
    observer->after_vjp(node, {gradients.data(), gradients.size()});
  }
  progress = {.in_backward = true};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) send(node.edges[i], std::move(gradients[i]));
  }
  if (!arrivals_.empty()) {
    for (const Edge& edge : node.edges) pass(edge);
  }
  if (retain_)
    node.drop_recomputed();
  else
    node.free_saved();
}

/// Whether nobody else holds this tensor or its memory and it lies densely in `format`, so that it can become
/// a `.grad` as it is.
bool is_unshared(const Tensor& tensor, MemoryFormat format) {
  return tensor.impl().use_count() == 1 && tensor.impl().storage->use_count() == 1 &&
         tensor.is_contiguous(format);
}

/// Adds a gradient to `.grad`, or makes it that; with a history if `create`. The leaf's lock is held from the
/// look at `.grad` to the end of the write, so that no thread undoes what another one adds.
void accumulate(TensorImpl& leaf, Tensor& gradient, bool create) {
  AutogradMeta& meta = autograd::ensure_meta(leaf);
  Tensor former;  // goes after the lock, as a graph may hang on it
  const std::scoped_lock lock(meta.lock);
  autograd::RecordedGradients::used(meta, leaf.storage->device());
  if (create) {
    former = meta.grad;
    meta.grad = former.defined() ? add(former, gradient) : gradient;
  } else if (meta.grad.defined()) {
    meta.grad.add_(gradient);
  } else {
    const MemoryFormat format = layout::format_of(leaf.shape, leaf.strides);
    meta.grad = is_unshared(gradient, format) ? std::move(gradient) : clone(gradient.detach(), format);
  }
}

void Walk::accumulate_into_leaves() {
  const NoInputHook no_autocast;
  const detail::GradModeFrame mode(create_);
  for (auto& [edge, gradient] : leaves_) {
    if (gradient.defined()) accumulate(*edge.leaf_impl(), gradient, create_);
  }
  arrivals_.finish();
}

Tensors Walk::captured(std::span<const Tensor> inputs, bool allow_unused) {
  Tensors result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor gradient = targets_[i].gradient;
    if (targets_[i].leaf != nullptr) {
      const auto found = leaf_slot_.find(targets_[i].leaf);
      if (found != leaf_slot_.end()) gradient = leaves_[found->second].second;
    }
    if (gradient.defined() && gradient.dtype() != inputs[i].dtype()) {
      const detail::GradModeFrame mode(create_);
      gradient = gradient.to(inputs[i].dtype());
    }
    if (!gradient.defined() && !allow_unused) {
      throw AutogradError("grad", "outputs that depend on every input",
                          "input " + std::to_string(i) + " unused",
                          "pass allow_unused = true to get an undefined tensor for it");
    }
    result.push_back(std::move(gradient));
  }
  return result;
}

/// Warns of a backward inside of an autocast region. Its ops see no region, so the result is the same; but
/// what the program computes from gradients there is rounded to 16 bits. Not for backwards that gradient
/// functions call.
void warn_inside_region(std::string_view op) {
  static WarningSite site("backward_in_region");
  if (input_hook_state().hook == nullptr || autograd::progress().in_backward || !site.is_fresh()) return;
  site.warn(op, "a call outside of the autocast region", "one inside",
            "end the region before it; backward runs each op in the dtype of its forward by itself");
}

}  // namespace

void backward(TensorList outputs, TensorList grad_outputs, const BackwardOptions& options) {
  warn_inside_region("backward");
  const Phase phase("backward");
  const autograd::RecomputedValuesScope recomputed;
  const autograd::BackwardScope scope;
  const detail::InferenceFrame no_inference(detail::Inference::off);
  Walk walk(outputs, grad_outputs, options.retain_graph.value_or(options.create_graph), options.create_graph);
  walk.serve_receivers();
  walk.run();
  walk.accumulate_into_leaves();
}

Tensors grad(TensorList outputs, TensorList inputs, TensorList grad_outputs, const GradOptions& options) {
  warn_inside_region("grad");
  const Phase phase("backward");
  const autograd::RecomputedValuesScope recomputed;
  const autograd::BackwardScope scope;
  const detail::InferenceFrame no_inference(detail::Inference::off);
  Walk walk(outputs, grad_outputs, options.retain_graph.value_or(options.create_graph), options.create_graph);
  walk.capture(inputs);
  walk.run();
  return walk.captured(inputs, options.allow_unused);
}

BackwardObserver::BackwardObserver() : scope_(backward_observers.get().begin(this)) {}
BackwardObserver::~BackwardObserver() { stop(); }
void BackwardObserver::stop() noexcept {
  if (scope_ != nullptr) backward_observers.get().end(std::exchange(scope_, nullptr));
}
BackwardObserver* BackwardObserver::current() noexcept {
  auto* const observers = backward_observers.find();
  return observers != nullptr ? observers->value_or(nullptr) : nullptr;
}
BackwardObserver* BackwardObserver::outer() const noexcept {
  static_cast<void>(backward_observers.get().newest());  // those that ended on other threads leave the list
  return scope_ != nullptr && scope_->older != nullptr ? scope_->older->value : nullptr;
}

namespace detail {
Tensor cast_saved(const Tensor& saved, DType dtype) { return saved.to(dtype); }
Tensor with_history(const Tensor& values, const autograd::Edge& edge) {
  if (!edge.target) return values;
  Outputs result(values.detach());
  if (edge.leaf) {
    const Tensor leaf{Ref<TensorImpl>(edge.leaf_impl())};
    record(to_dtype_descriptor(), {leaf}, ToDTypeAttrs{values.dtype()}, result);
  } else {
    result[0].impl().grad_fn = edge.target;
    result[0].impl().output_index = edge.index;
  }
  return std::move(result[0]);
}
Tensor zero_gradient(const autograd::OutputInfo& output) {
  return zeros(output.shape, {.dtype = output.dtype, .device = output.device});
}
}  // namespace detail

}  // namespace mezzo
