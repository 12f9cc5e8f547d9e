// Rules are matched from the left: literal text, and whole parts of names for each star.
#include "mezzo/io/rename.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/ops/shape.h"

namespace mezzo::io {

namespace {

constexpr std::string_view kRename = "rename";

bool is_beginning(std::string_view from) { return from.ends_with('.'); }

std::string shown_rule(const RenameRule& rule) { return quote(rule.from) + " -> " + quote(rule.to); }

void check_rule(const RenameRule& rule) {
  const auto stars = [](std::string_view text) { return std::count(text.begin(), text.end(), '*'); };
  for (const std::string_view text : {std::string_view(rule.from), std::string_view(rule.to)}) {
    for (std::size_t at = 0; at + 1 < text.size(); ++at) {
      if (text[at] != '*' || text[at + 1] == '.') continue;
      throw ValueError(kRename, "'.' or the end behind each '*'", shown_rule(rule),
                       "write a rule for each name instead");
    }
  }
  if (rule.how == Renamed::dropped) return;
  if (stars(rule.to) > stars(rule.from)) {
    throw ValueError(kRename, "at most as many '*' as in what they stand for", shown_rule(rule),
                     "name what is there");
  }
  if (is_beginning(rule.from) ? !rule.to.empty() && !is_beginning(rule.to) : is_beginning(rule.to)) {
    throw ValueError(kRename, "a '.' at the end of both or of none", shown_rule(rule),
                     "end both with '.' to rename beginnings");
  }
}

/// The new name, or nothing where the rule does not match.
std::optional<std::string> name_by_rule(const RenameRule& rule, std::string_view name) {
  std::vector<std::string_view> parts;
  for (const char letter : rule.from) {
    if (letter == '*') {
      const std::string_view part = name.substr(0, name.find('.'));
      if (part.empty()) return std::nullopt;
      parts.push_back(part);
      name.remove_prefix(part.size());
    } else if (name.starts_with(letter)) {
      name.remove_prefix(1);
    } else {
      return std::nullopt;
    }
  }
  if (!name.empty() && !is_beginning(rule.from)) return std::nullopt;
  std::string result;
  auto part = parts.begin();
  for (const char letter : rule.to) {
    if (letter == '*')
      result += *part++;
    else
      result += letter;
  }
  return result.append(name);
}

Tensor exchanged_dims(const std::string& name, const Tensor& tensor) {
  if (tensor.dim() != 2) {
    throw ShapeError(kRename, "a matrix to transpose", to_string(tensor.shape()) + " under " + quote(name),
                     "use Renamed::as_is");
  }
  return transpose(tensor, 0, 1).contiguous();
}

void check_used(const TensorFile::NamedTensors& tensors, const RenameRule& rule, bool is_used) {
  if (is_used) return;
  const std::string names =
      mezzo::detail::listed(tensors, 8, [](const auto& e) { return quote(e.first, 40); });
  const std::string got = tensors.empty() ? "no tensors" : "only " + names;
  throw ValueError(kRename, "a tensor that is left for the rule " + shown_rule(rule), got,
                   "check the rule and those before it");
}

/// Refuses names that two tensors get; `old` are their names before.
void check_new_names(const TensorFile::NamedTensors& tensors, const std::vector<std::string_view>& old) {
  std::map<std::string_view, std::string_view> seen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [known, is_new] = seen.emplace(tensors[i].first, old[i]);
    if (is_new) continue;
    throw ValueError(kRename, "distinct names",
                     quote(known->first) + " for " + quote(known->second) + " and for " + quote(old[i]),
                     "change a rule, or drop one of them");
  }
}

}  // namespace

TensorFile::NamedTensors rename(const TensorFile::NamedTensors& tensors, std::span<const RenameRule> rules) {
  for (const RenameRule& rule : rules) check_rule(rule);
  std::vector<bool> used(rules.size());
  TensorFile::NamedTensors result;
  std::vector<std::string_view> old;
  for (const auto& [name, tensor] : tensors) {
    std::string new_name = name;
    Renamed how = Renamed::as_is;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      std::optional<std::string> found = name_by_rule(rules[i], name);
      if (!found) continue;
      new_name = std::move(*found);
      how = rules[i].how;
      used[i] = true;
      break;
    }
    if (how == Renamed::dropped) continue;
    result.emplace_back(std::move(new_name),
                        how == Renamed::transposed ? exchanged_dims(name, tensor) : tensor);
    old.push_back(name);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) check_used(tensors, rules[i], used[i]);
  check_new_names(result, old);
  return result;
}

TensorFile::NamedTensors rename(const TensorFile::NamedTensors& tensors,
                                std::initializer_list<RenameRule> rules) {
  return rename(tensors, std::span(rules.begin(), rules.size()));
}

}  // namespace mezzo::io
