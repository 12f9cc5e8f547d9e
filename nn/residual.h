// Residual: a layer with a way around it.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

/// x + inner(x); or shortcut(x) + inner(x), where `shortcut` brings x to the shape of inner's result, as a
/// convolution with strides does beside others. Children are "inner" and, if given, "shortcut"; inner is
/// called first. Their results are added as `add` does it, but must have one shape. Throws: ValueError
/// without an inner layer; forward throws ShapeError, naming the layer's path, for two shapes. Source: He,
/// Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016.
class Residual final : public Layer {
 public:
  explicit Residual(std::shared_ptr<Layer> inner, std::shared_ptr<Layer> shortcut = nullptr);
  template <detail::ModuleValue<Layer> L>
  explicit Residual(L&& layer) : Residual(detail::shared<L>(std::forward<L>(layer))) {}
  template <detail::ModuleValue<Layer> L, detail::ModuleValue<Layer> S>
  Residual(L&& layer, S&& around)
      : Residual(detail::shared<L>(std::forward<L>(layer)), detail::shared<S>(std::forward<S>(around))) {}
  [[nodiscard]] Tensor forward(const Tensor& x) override;

  Child<Layer> inner;
  Child<Layer> shortcut;
};

}  // namespace mezzo::nn
