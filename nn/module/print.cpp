// Modules as text: names of types, and the tree that PyTorch prints.
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <utility>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

namespace {

/// Where the last scope of a C++ name ends; "::" inside brackets of any kind belongs to arguments.
std::size_t last_component(const std::string& name) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth == 0 && c == ':' && i + 1 < name.size() && name[i + 1] == ':') begin = i + 2;
  }
  return begin;
}

bool has_children(const Module& module) {
  const auto slots = module.child_slots();
  return std::any_of(slots.begin(), slots.end(),
                     [](const ChildSlot* slot) { return slot->module() != nullptr; });
}

/// The tree as text, written from its first line to its last: without recursion, as models may be deep.
class Printer {
 public:
  [[nodiscard]] std::string print(const Module& root) {
    open(root);
    while (!frames_.empty()) {
      const auto slots = frames_.back().module->child_slots();
      std::size_t& next = frames_.back().next;
      if (next == slots.size()) {
        frames_.pop_back();
        text_.append(2 * frames_.size(), ' ').append(frames_.empty() ? ")" : ")\n");
        continue;
      }
      const ChildSlot& slot = *slots[next++];
      if (!slot.module()) continue;
      indent().append("(").append(slot.name()).append("): ");
      open(*slot.module());
    }
    return std::move(text_);
  }

 private:
  struct Frame {
    const Module* module;
    std::size_t next;  // slot
  };

  std::string& indent() { return text_.append(2 * frames_.size(), ' '); }
  /// All of a module without children, the beginning of others.
  void open(const Module& module) {
    const std::string extra = module.extra_repr();
    text_.append(module.type_name()).append("(");
    if (!has_children(module)) {
      text_.append(extra).append(frames_.empty() ? ")" : ")\n");
      return;
    }
    text_ += "\n";
    frames_.push_back({&module, 0});
    if (!extra.empty()) indent().append(extra).append("\n");
  }

  std::string text_;
  std::vector<Frame> frames_;
};

}  // namespace

std::string detail::type_text(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? demangled.get() : type.name();
  return name.substr(last_component(name));
}

std::string Module::type_name() const { return detail::type_text(typeid(*this)); }

std::string to_string(const Module& module) { return Printer().print(module); }

std::ostream& operator<<(std::ostream& stream, const Module& module) { return stream << to_string(module); }

}  // namespace mezzo::nn
