// Tensors by name, in order: what state dicts and files of tensors are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo {

/// A vector of names and tensors that is looked up by name, too. Where a name is there twice, the first
/// counts.
///   nn::NamedTensors state = io::load("run.safetensors");
///   state["head.weight"].zero_();
///   state.erase("head.bias");
///   encoder.load_state_dict(state.with_prefix("encoder."));
class NamedTensors : public std::vector<std::pair<std::string, Tensor>> {
 public:
  using Pairs = std::vector<std::pair<std::string, Tensor>>;
  using Pairs::Pairs;
  NamedTensors() = default;
  NamedTensors(Pairs pairs) : Pairs(std::move(pairs)) {}

  // By position as of a vector, or by name. Throws: ValueError, with the nearest name that there is, for a
  // name that is not there; a new one is appended by emplace_back(name, tensor).
  using Pairs::at;
  [[nodiscard]] const Tensor& at(std::string_view name) const;
  [[nodiscard]] Tensor& at(std::string_view name) {
    return const_cast<Tensor&>(std::as_const(*this).at(name));
  }
  using Pairs::operator[];
  [[nodiscard]] const Tensor& operator[](std::string_view name) const { return at(name); }
  [[nodiscard]] Tensor& operator[](std::string_view name) { return at(name); }

  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  /// Removes all of that name, and returns how many there were.
  using Pairs::erase;
  std::size_t erase(std::string_view name);

  /// Those whose names begin with `prefix`, in order, under their names without it.
  [[nodiscard]] NamedTensors with_prefix(std::string_view prefix) const;
  /// All of them under `prefix` and their names.
  [[nodiscard]] NamedTensors add_prefix(std::string_view prefix) const;
};

}  // namespace mezzo
