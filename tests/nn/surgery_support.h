// What the tests of surgery share: layers to exchange, and how a model is laid out.
#pragma once

#include "mezzo/nn/activation.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/sequential.h"
#include "mezzo/nn/surgery.h"
#include "mezzo/tests/nn/models.h"

namespace mezzo::nn::testing {

using surgery::Decision;
using surgery::Match;
using surgery::Report;
using surgery::Rule;
using surgery::Subclasses;
using Names = std::vector<std::string>;

/// A layer that may be derived from, and one that is.
struct Soft : Layer {
  Tensor forward(const Tensor& x) override { return x; }
};
struct Softer final : Soft {};

/// A layer around another one, of any number of nested kinds.
template <int kKind = 0>
struct Wrapper final : Layer {
  explicit Wrapper(std::shared_ptr<Layer> layer) : inner(*this, "inner", std::move(layer)) {}
  Tensor forward(const Tensor& x) override { return inner(x); }
  [[nodiscard]] std::string type_name() const override { return "Wrapper" + std::to_string(kKind); }
  Child<Layer> inner;
};

/// Types of all modules below the root, with their paths.
inline Names layout_of(Module& root) {
  Names result;
  for (const auto& [path, module] : root.named_modules())
    if (module != &root) result.push_back(path + ":" + module->type_name());
  return result;
}

inline Names paths_of(const Report& report) {
  Names result;
  for (const surgery::Replaced& replaced : report.replaced())
    for (const std::string& path : replaced.paths) result.push_back(path);
  return result;
}

inline Sequential relu_net() {
  return Sequential(make<ReLU>(), make<Sequential>(make<ReLU>(), make<Tanh>()), make<Linear>(2, 2));
}

inline std::shared_ptr<Module> gelu(ReLU& /*old*/) { return make<GELU>(); }

}  // namespace mezzo::nn::testing
