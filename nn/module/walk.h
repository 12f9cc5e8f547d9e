// The walk over a tree of modules, without recursion: a model may be nested deeper than a stack is.
#pragma once

#include <string>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::nn::detail {

/// Calls enter(path, module) for a module and everything below it, parents first, in the order of the slots;
/// and goes below a module where that returns true. A module with several places is met at each.
template <class M, class Enter>
void walk(M& root, const Enter& enter) {
  struct Frame {
    M* module;
    std::size_t next;         // slot
    std::size_t path_length;  // of the module's own path
  };
  std::string path;
  if (!enter(path, root)) return;
  std::vector<Frame> frames{{&root, 0, 0}};
  while (!frames.empty()) {
    Frame& top = frames.back();
    path.resize(top.path_length);
    const auto slots = top.module->child_slots();
    if (top.next == slots.size()) {
      frames.pop_back();
      continue;
    }
    const ChildSlot& slot = *slots[top.next++];
    if (!slot.module()) continue;
    if (!path.empty()) path += '.';
    path += slot.name();
    M& child = *slot.module();
    if (enter(path, child)) frames.push_back({&child, 0, path.size()});
  }
}

}  // namespace mezzo::nn::detail
