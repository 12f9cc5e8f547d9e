// ModelRef: a model as an argument, kept by the program or shared.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// A module that the program keeps, or shares.
class ModelRef {
 public:
  ModelRef() = default;
  template <std::derived_from<Module> M>
  ModelRef(M& model) : module_(&model), layer_(as_layer(model)) {}
  template <std::derived_from<Module> M>
  ModelRef(std::shared_ptr<M> model) : owner_(model), module_(model.get()) {
    if (model != nullptr) layer_ = as_layer(*model);
  }
  [[nodiscard]] Module* module() const noexcept { return module_; }
  /// nullptr for a model that takes other things than one tensor.
  [[nodiscard]] Layer* layer() const noexcept { return layer_; }

 private:
  static Layer* as_layer(Module& module) { return dynamic_cast<Layer*>(&module); }

  std::shared_ptr<Module> owner_;
  Module* module_ = nullptr;
  Layer* layer_ = nullptr;
};

}  // namespace mezzo::nn
