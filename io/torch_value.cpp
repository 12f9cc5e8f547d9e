// Look-ups in what a file of torch.save held.
#include "mezzo/io/torch_value.h"

#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/io/detail/file.h"
#include "mezzo/io/detail/torch/pickled.h"

namespace mezzo::io {

namespace {

using detail::TorchTree;
using Kind = TorchValue::Kind;

std::string key_text(const TorchTree& tree, TorchTree::Number number) {
  const TorchTree::Node& node = tree.nodes[number];
  return node.kind == Kind::string ? tree.strings[node.index] : std::to_string(node.integer);
}

bool is_key(const TorchTree& tree, TorchTree::Number number, std::string_view key) {
  const TorchTree::Node& node = tree.nodes[number];
  return node.kind == Kind::string && tree.strings[node.index] == key;
}

bool is_key(const TorchTree& tree, TorchTree::Number number, std::int64_t key) {
  const TorchTree::Node& node = tree.nodes[number];
  return node.kind == Kind::integer && node.integer == key;
}

}  // namespace

std::vector<std::pair<std::string, TorchTree::Number>> detail::named_tensors(const TorchTree& tree,
                                                                             TorchTree::Number root) {
  /// Bytes of all names, as many as a safetensors header may have: a long shared key could make any number.
  constexpr std::size_t kMaxLetters = 100'000'000;
  std::vector<std::pair<std::string, TorchTree::Number>> found;
  std::string name;
  std::size_t visited = 0, letters = 0;
  // Each value as often as it is named. Recurses as deep as the file nests, which is at most kMaxTorchDepth.
  const auto visit = [&](const auto& again, TorchTree::Number number) -> void {
    if (++visited > kMaxTorchValues) {
      throw IoError("TorchValue.tensors", "at most " + std::to_string(kMaxTorchValues) + " values",
                    "more, as lists or dicts are shared", "take the dicts apart with at()");
    }
    const TorchTree::Node& node = tree.nodes[number];
    if (node.kind == Kind::tensor) {
      letters += name.size();
      if (letters > kMaxLetters) {
        throw IoError("TorchValue.tensors",
                      "names of at most " + std::to_string(kMaxLetters) + " bytes in all", "more",
                      "take the dicts apart with at()");
      }
      found.emplace_back(name, number);
    }
    const bool is_map = node.kind == Kind::map;
    if (!is_map && node.kind != Kind::list && node.kind != Kind::tuple) return;
    const std::vector<TorchTree::Number>& parts = tree.parts[node.index];
    for (std::size_t i = is_map ? 1 : 0; i < parts.size(); i += is_map ? 2 : 1) {
      const std::size_t length = name.size();
      if (length > 0) name += '.';
      name += is_map ? key_text(tree, parts[i - 1]) : std::to_string(i);
      again(again, parts[i]);
      name.resize(length);
    }
  };
  visit(visit, root);
  std::vector<std::string_view> names;
  for (const auto& [path, number] : found) names.push_back(path);
  require_distinct("TorchValue.tensors", std::move(names), "distinct names of tensors",
                   "take the dicts apart with at()");
  return found;
}

Kind TorchValue::kind() const noexcept { return tree_ == nullptr ? Kind::none : tree_->nodes[number_].kind; }

void TorchValue::refuse(std::string_view member, std::string_view expected) const {
  throw ValueError("TorchValue." + std::string(member), expected, kind_name(kind()),
                   "check the file's layout");
}

bool TorchValue::as_bool() const {
  if (!is_bool()) refuse("as_bool", "bool");
  return tree_->nodes[number_].integer != 0;
}

std::int64_t TorchValue::as_int() const {
  if (!is_int()) refuse("as_int", "int");
  return tree_->nodes[number_].integer;
}

double TorchValue::as_double() const {
  if (is_int()) return static_cast<double>(as_int());
  if (!is_double()) refuse("as_double", "float or int");
  return tree_->nodes[number_].real;
}

std::string TorchValue::as_string() const {
  if (!is_string()) refuse("as_string", "str");
  return tree_->strings[tree_->nodes[number_].index];
}

Tensor TorchValue::as_tensor() const {
  if (!is_tensor()) refuse("as_tensor", "tensor");
  return tree_->tensors[tree_->nodes[number_].index];
}

const std::vector<std::uint32_t>& TorchValue::parts() const {
  return tree_->parts[tree_->nodes[number_].index];
}

TorchValue TorchValue::part(std::size_t i) const { return {tree_, parts()[i]}; }

std::size_t TorchValue::size() const {
  if (is_map()) return parts().size() / 2;
  if (!is_list() && !is_tuple()) refuse("size", "list, tuple or dict");
  return parts().size();
}

template <class Key>
std::size_t TorchValue::find(Key key) const {
  const std::vector<std::uint32_t>& all = parts();
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
    if (is_key(*tree_, all[i], key)) return i + 1;
  }
  return 0;
}

bool TorchValue::contains(std::string_view key) const {
  if (!is_map()) refuse("contains", "dict");
  return find(key) != 0;
}

bool TorchValue::contains(std::int64_t key) const {
  if (!is_map()) refuse("contains", "dict");
  return find(key) != 0;
}

template <class Key>
TorchValue TorchValue::at_key(Key key, const std::string& shown) const {
  constexpr std::size_t kShown = 8;
  if (const std::size_t i = find(key); i != 0) return part(i);
  std::string got = size() == 0 ? "an empty dict" : "only ";
  for (std::size_t i = 0; i < std::min(size(), kShown); ++i)
    got += (i == 0 ? "" : ", ") + quote(key_text(*tree_, parts()[2 * i]), 40);
  if (size() > kShown) got += " and " + std::to_string(size() - kShown) + " more";
  throw ValueError("TorchValue.at", "the key " + shown, got, "check the name");
}

TorchValue TorchValue::at(std::string_view key) const {
  if (!is_map()) refuse("at", "dict");
  return at_key(key, quote(key));
}

TorchValue TorchValue::at(std::int64_t index) const {
  if (is_map()) return at_key(index, std::to_string(index));
  if (!is_list() && !is_tuple()) refuse("at", "list, tuple or dict");
  if (index < 0 || static_cast<std::size_t>(index) >= size()) {
    throw IndexError("TorchValue.at", "an index below " + std::to_string(size()), std::to_string(index), "");
  }
  return part(static_cast<std::size_t>(index));
}

std::pair<TorchValue, TorchValue> TorchValue::entry(std::size_t i) const {
  if (!is_map()) refuse("entry", "dict");
  if (i >= size())
    throw IndexError("TorchValue.entry", "an index below " + std::to_string(size()), std::to_string(i), "");
  return {part(2 * i), part(2 * i + 1)};
}

TorchValue::NamedTensors TorchValue::tensors() const {
  NamedTensors result;
  if (tree_ == nullptr) return result;
  for (auto& [name, node] : detail::named_tensors(*tree_, number_))
    result.emplace_back(std::move(name), tree_->tensors[tree_->nodes[node].index]);
  return result;
}

}  // namespace mezzo::io
