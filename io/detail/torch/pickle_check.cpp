// One walk over all values that can be reached, each once and without recursion.
#include "mezzo/io/detail/torch/pickle_check.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/value.h"

namespace mezzo::io::detail {

namespace {

using Kind = TorchKind;
using Number = TorchTree::Number;

class PickleCheck {
 public:
  explicit PickleCheck(PickledValues& values)
      : values_(values), tree_(values.result().tree), levels_(tree_.nodes.size(), kUnseen) {}

  void run() {
    enter(tree_.root);
    while (!open_.empty()) {
      auto& [value, next] = open_.back();
      const std::vector<Number>& parts = tree_.parts[tree_.nodes[value].index];
      if (next < parts.size()) {
        enter(parts[next++]);
        continue;
      }
      leave(value, parts);
      open_.pop_back();
    }
  }

 private:
  static constexpr std::uint8_t kUnseen = 0, kOpen = 255;
  static_assert(kMaxTorchDepth < kOpen);

  void enter(Number value) {
    if (levels_[value] == kOpen) values_.fail("values that do not contain themselves", "one that does");
    if (levels_[value] != kUnseen) return;
    const Kind kind = values_.kind(value);
    if (kind == PickledValues::kName) {
      if (values_.name_of(value).kind != PickleName::dtype) refuse(value);
      const std::string name = values_.name_of(value).text;
      tree_.nodes[value].kind = Kind::string;
      tree_.nodes[value].index = tree_.strings.size();
      tree_.strings.push_back(name);
    } else if (kind == PickledValues::kStorage) {
      refuse(value);
    }
    const bool has_parts = kind == Kind::list || kind == Kind::tuple || kind == Kind::map;
    levels_[value] = has_parts ? kOpen : 1;
    if (has_parts) open_.emplace_back(value, 0);
  }

  void leave(Number value, const std::vector<Number>& parts) {
    std::size_t deepest = 0;
    for (const Number part : parts) deepest = std::max<std::size_t>(deepest, levels_[part]);
    if (deepest >= kMaxTorchDepth)
      values_.fail("at most " + std::to_string(kMaxTorchDepth) + " levels of lists and dicts", "more");
    levels_[value] = static_cast<std::uint8_t>(deepest + 1);
    if (values_.kind(value) == Kind::map) check_keys(parts);
  }

  void check_keys(const std::vector<Number>& parts) {
    std::vector<Number> keys;
    keys.reserve(parts.size() / 2);
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const Kind kind = values_.kind(parts[i]);
      if (kind != Kind::string && kind != Kind::integer)
        values_.fail("keys of dicts that are strings or ints", values_.shown(parts[i]));
      keys.push_back(parts[i]);
    }
    std::sort(keys.begin(), keys.end(), [this](Number a, Number b) { return comes_before(a, b); });
    const auto twin = std::adjacent_find(keys.begin(), keys.end(), [this](Number a, Number b) {
      return !comes_before(a, b) && !comes_before(b, a);
    });
    if (twin == keys.end()) return;
    const TorchTree::Node& node = tree_.nodes[*twin];
    values_.fail("distinct keys in a dict", (node.kind == Kind::string ? quote(tree_.strings[node.index])
                                                                       : std::to_string(node.integer)) +
                                                " twice");
  }

  [[nodiscard]] bool comes_before(Number a, Number b) const {
    const TorchTree::Node &x = tree_.nodes[a], &y = tree_.nodes[b];
    if (x.kind != y.kind) return x.kind < y.kind;
    return x.kind == Kind::string ? tree_.strings[x.index] < tree_.strings[y.index] : x.integer < y.integer;
  }

  [[noreturn]] void refuse(Number value) {
    values_.fail("tensors, dicts, lists, numbers and strings", "a reference to " + values_.shown(value));
  }

  PickledValues& values_;
  TorchTree& tree_;
  std::vector<std::uint8_t> levels_;  ///< of lists and dicts below and with a value, once it is done
  std::vector<std::pair<Number, std::size_t>> open_;  ///< with the part that comes next
};

}  // namespace

void check_pickled(PickledValues& values) { PickleCheck(values).run(); }

}  // namespace mezzo::io::detail
