// Modules as text: names of types, and the tree that PyTorch prints.
#include <cxxabi.h>

#include <cstdlib>
#include <ostream>

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

void print(const Module& module, const std::string& indent, std::string& text) {
  const std::string extra = module.extra_repr();
  text += module.type_name() + "(";
  std::string lines;
  const std::string inner = indent + "  ";
  for (const ChildSlot* slot : module.child_slots()) {
    if (!slot->module()) continue;
    lines += inner + "(" + slot->name() + "): ";
    print(*slot->module(), inner, lines);
    lines += "\n";
  }
  if (lines.empty())
    text += extra;
  else
    text += "\n" + (extra.empty() ? "" : inner + extra + "\n") + lines + indent;
  text += ")";
}

}  // namespace

std::string detail::type_text(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? demangled.get() : type.name();
  return name.substr(last_component(name));
}

std::string Module::type_name() const { return detail::type_text(typeid(*this)); }

std::string to_string(const Module& module) {
  std::string text;
  print(module, "", text);
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Module& module) { return stream << to_string(module); }

}  // namespace mezzo::nn
