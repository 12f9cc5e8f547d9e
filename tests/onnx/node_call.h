// A node of an ONNX model while it is evaluated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mezzo/mezzo.h"
#include "mezzo/onnx/model.h"

namespace mezzo::onnx::testing {

using Integers = std::vector<std::int64_t>;
using Results = std::vector<Tensor>;

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error("evaluate: " + what); }

inline Integers integers_of(const Tensor& x) { return x.to_vector<std::int64_t>(); }
inline Shape shape_of(const Integers& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }
inline Dims dims_of(const Integers& dims) { return Dims(std::span<const std::int64_t>(dims)); }

/// A node with its inputs.
class At {
 public:
  At(const Node& node, Results inputs) : node_(node), inputs_(std::move(inputs)) {}
  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  [[nodiscard]] const Tensor& operator[](std::size_t i) const { return inputs_.at(i); }
  [[nodiscard]] const Results& all() const { return inputs_; }
  [[nodiscard]] std::size_t results() const { return node_.outputs.size(); }

  template <class T>
  [[nodiscard]] T get(const std::string& name, T otherwise) {
    for (const Attribute& attribute : node_.attributes) {
      if (attribute.name != name) continue;
      read_.insert(name);
      return std::get<T>(attribute.value);
    }
    return otherwise;
  }
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise) {
    return get<std::int64_t>(name, otherwise);
  }
  [[nodiscard]] double real(const std::string& name, float otherwise) { return get<float>(name, otherwise); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) {
    return get<std::string>(name, otherwise);
  }
  [[nodiscard]] Integers list(const std::string& name, const Integers& otherwise = {}) {
    return get<Integers>(name, otherwise);
  }
  void require_all_read() const {
    for (const Attribute& attribute : node_.attributes) {
      if (!read_.contains(attribute.name)) fail(node_.op + "." + attribute.name + " is not read");
    }
  }

 private:
  const Node& node_;
  Results inputs_;
  std::set<std::string> read_;
};

/// What an op computes; ops by name.
using Op = std::function<Results(At&)>;
using Ops = std::map<std::string, Op>;

[[nodiscard]] Ops layer_ops();

}  // namespace mezzo::onnx::testing
