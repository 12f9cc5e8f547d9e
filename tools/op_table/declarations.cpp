// A text scan of the headers that ops/ops.h includes, for functions that return tensors and for the names
// of their tensor parameters. It understands no other C++.
#include "op_table/declarations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace mezzo::op_table {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("op_table: expected a source tree with " + path + ", found none");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The first sentence of the comment on top.
std::string title_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (line.rfind("// ", 0) != 0) break;
    text += (text.empty() ? "" : " ") + line.substr(3);
  }
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

std::string without_comments(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line.substr(0, line.find("//")) + "\n";
  return text;
}

/// The parameters of a function whose list begins at `start`, behind the bracket.
std::vector<std::string> parameters_at(const std::string& text, std::size_t start) {
  std::vector<std::string> parameters(1);
  int depth = 0;
  for (std::size_t i = start; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '{' || c == '<') ++depth;
    if (c == ')' && depth == 0) break;
    if (c == ')' || c == '}' || c == '>') --depth;
    if (c == ',' && depth == 0)
      parameters.emplace_back();
    else
      parameters.back() += c;
  }
  return parameters;
}

/// What a parameter adds to the names of tensors: its name, with "..." for a list, or nothing.
std::string tensor_name(const std::string& parameter) {
  const std::string head = parameter.substr(0, parameter.find('='));
  const bool is_list =
      head.find("TensorList ") != std::string::npos || head.find("<Tensor>") != std::string::npos;
  if (!is_list && head.find("const Tensor&") == std::string::npos) return {};
  const auto last = std::find_if(head.rbegin(), head.rend(), is_word);
  const auto first = std::find_if_not(last, head.rend(), is_word);
  return std::string(first.base(), last.base()) + (is_list ? "..." : "");
}

std::vector<Declaration> declarations_in(const std::string& text) {
  std::vector<Declaration> found;
  for (const std::string_view type : {"Tensor ", "Tensors ", "ValuesIndices "}) {
    for (std::size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) {
      if (at > 0 && is_word(text[at - 1])) continue;
      const std::size_t begin = at + type.size();
      std::size_t end = begin;
      while (end < text.size() && is_word(text[end])) ++end;
      if (end == begin || end == text.size() || text[end] != '(') continue;
      Declaration one{text.substr(begin, end - begin), {}};
      for (const std::string& parameter : parameters_at(text, end + 1)) {
        const std::string name = tensor_name(parameter);
        if (!name.empty()) one.tensors.push_back(name);
      }
      found.push_back(std::move(one));
    }
  }
  return found;
}

bool declares(const Family& family, std::string_view name) {
  return std::any_of(family.declarations.begin(), family.declarations.end(),
                     [name](const Declaration& one) { return one.name == name; });
}

}  // namespace

std::vector<Family> read_families(const std::string& root) {
  constexpr std::string_view kInclude = "#include \"mezzo/";
  std::vector<Family> families;
  for (const std::string& line : lines_of(root + "/ops/ops.h")) {
    if (line.rfind(kInclude, 0) != 0) continue;
    const std::string path = line.substr(kInclude.size(), line.rfind('"') - kInclude.size());
    const std::vector<std::string> lines = lines_of(root + "/" + path);
    families.push_back({path, title_of(lines), declarations_in(without_comments(lines))});
  }
  return families;
}

const Family* family_of(const std::vector<Family>& families, std::string_view op) {
  for (std::string_view name = op;; name = name.substr(0, name.rfind('_'))) {
    for (const Family& family : families) {
      if (declares(family, name)) return &family;
    }
    if (name.find('_') == std::string_view::npos) return nullptr;
  }
}

std::vector<std::string> input_names(const std::vector<Family>& families, std::string_view op,
                                     std::size_t count, bool takes_list) {
  const auto fits = [&](const Declaration& one) {
    const bool lists = std::any_of(one.tensors.begin(), one.tensors.end(), is_list);
    return lists == takes_list && (lists || one.tensors.size() == count);
  };
  for (std::string_view name = op;; name = name.substr(0, name.rfind('_'))) {
    for (const Family& family : families) {
      for (const Declaration& one : family.declarations) {
        if (one.name == name && fits(one)) return one.tensors;
      }
    }
    // Gradients take other tensors than the function they are named after.
    if (name.find('_') == std::string_view::npos || op.find("_backward") != std::string_view::npos) break;
  }
  if (takes_list) return {"tensors..."};
  if (count == 1) return {"x"};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("x" + std::to_string(i));
  return names;
}

}  // namespace mezzo::op_table
