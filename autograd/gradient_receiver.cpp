// Leaves with a receiver: who has one, and when the gradient of each is complete.
#include "mezzo/autograd/gradient_receiver.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "mezzo/autograd/autograd_meta.h"
#include "mezzo/core/error.h"

namespace mezzo::autograd {

namespace {

std::atomic<std::size_t> received_leaves{0};

}  // namespace

void set_gradient_receiver(const Tensor& leaf, Ref<GradientReceiver> receiver, std::size_t index) {
  AutogradMeta& meta = ensure_meta(leaf);
  const std::scoped_lock lock(meta.lock);
  if (meta.receiver.receiver) {
    throw StateError("DataParallel", "parameters that no other DataParallel reduces",
                     "one of shape " + to_string(leaf.shape()) + " that has one",
                     "make one DataParallel per model, and end it before another one is made");
  }
  meta.receiver = {std::move(receiver), index};
  received_leaves.fetch_add(1, std::memory_order_relaxed);
}

void clear_gradient_receiver(const Tensor& leaf) noexcept {
  AutogradMeta* const meta = meta_of(leaf);
  if (meta == nullptr) return;
  Ref<RefCounted> former;  // goes after the lock
  const std::scoped_lock lock(meta->lock);
  if (!meta->receiver.receiver) return;
  former = std::move(meta->receiver.receiver);
  meta->receiver = {};
  received_leaves.fetch_sub(1, std::memory_order_relaxed);
}

bool LeafArrivals::are_needed() noexcept { return received_leaves.load(std::memory_order_relaxed) > 0; }

LeafArrivals::~LeafArrivals() {
  for (const auto& receiver : receivers_) receiver->abandon();
}

void LeafArrivals::count(const Edge& edge) {
  const TensorImpl* const leaf = edge.leaf_impl();
  const auto [found, is_new] = leaves_.try_emplace(leaf);
  if (is_new) {
    AutogradMeta* const meta = meta_of(*leaf);
    if (meta != nullptr) {
      const std::scoped_lock lock(meta->lock);
      if (meta->receiver.receiver) {
        auto* const receiver = static_cast<GradientReceiver*>(meta->receiver.receiver.get());
        found->second = {receiver, meta->receiver.index, 0};
        const bool is_known = std::any_of(receivers_.begin(), receivers_.end(),
                                          [&](const auto& known) { return known.get() == receiver; });
        if (!is_known) receivers_.push_back(Ref<GradientReceiver>(receiver));
      }
    }
  }
  ++found->second.edges;
}

void LeafArrivals::begin(std::span<const Edge> roots) {
  std::vector<const Node*> stack;
  std::unordered_set<const Node*> seen;
  const auto follow = [&](const Edge& edge) {
    if (!edge.target) return;
    if (edge.leaf)
      count(edge);
    else if (seen.insert(edge.node()).second)
      stack.push_back(edge.node());
  };
  for (const Edge& edge : roots) follow(edge);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->edges) follow(edge);
  }
  std::erase_if(leaves_, [](const auto& leaf) { return leaf.second.receiver == nullptr; });
  // One that throws has not begun; those after it neither.
  const auto all = std::exchange(receivers_, {});
  for (const auto& receiver : all) {
    std::vector<std::size_t> indices;
    for (const auto& [impl, leaf] : leaves_) {
      if (leaf.receiver == receiver.get()) indices.push_back(leaf.index);
    }
    std::sort(indices.begin(), indices.end());
    receiver->begin(indices);
    receivers_.push_back(receiver);
  }
}

bool LeafArrivals::pass(const TensorImpl& leaf) {
  const auto found = leaves_.find(&leaf);
  return found != leaves_.end() && --found->second.edges == 0;
}

void LeafArrivals::receive(const TensorImpl& leaf, Tensor gradient) {
  const Leaf& found = leaves_.at(&leaf);
  found.receiver->receive(found.index, std::move(gradient));
}

void LeafArrivals::finish() {
  while (!receivers_.empty()) {
    receivers_.front()->finish();
    receivers_.erase(receivers_.begin());
  }
}

}  // namespace mezzo::autograd
