// What the tests of low-precision norms share: the layers as a table, inputs, and comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amp/scaler_support.h"
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/norm_surgery.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/cuda.h"
#include "mezzo/nn/sequential.h"

namespace mezzo::amp::testing {

/// Features of a layer norm, channels of a group norm. Odd parts of vectors are left over in both.
inline constexpr std::int64_t kWidth = 38;

/// The CPU, and the CUDA device where there is one.
inline std::vector<Device> devices() {
  std::vector<Device> list{Device::cpu()};
  if (cuda::is_available()) list.push_back(Device::cuda(0));
  return list;
}

/// One of the layers, with what it should do.
struct Kind {
  std::string name;
  bool groups;            ///< a group norm
  bool fused;             ///< takes x as it comes
  bool casts_parameters;  ///< to the region's dtype

  [[nodiscard]] std::shared_ptr<nn::Layer> make(Device device, bool affine) const {
    std::shared_ptr<nn::Layer> layer;
    const NormParameters parameters = casts_parameters ? NormParameters::autocast : NormParameters::f32;
    if (groups) {
      layer = nn::make<LPGroupNorm>(nn::GroupNorm(2, kWidth, {.affine = affine}), parameters);
    } else {
      const nn::LayerNorm norm(kWidth, {.elementwise_affine = affine});
      if (fused)
        layer = nn::make<FusedLayerNorm>(norm);
      else
        layer = nn::make<LPLayerNorm>(norm, parameters);
    }
    Generator generator(5);
    const NoGrad no_grad;
    for (const Tensor& parameter : layer->parameters())
      parameter.copy_(uniform(0.5, 1.5, parameter.shape(), {}, generator));
    layer->to(device);
    return layer;
  }
  /// The layer that it could have replaced, with the same parameters.
  [[nodiscard]] std::shared_ptr<nn::Layer> plain(nn::Layer& layer) const {
    if (groups) return nn::make<nn::GroupNorm>(dynamic_cast<nn::GroupNorm&>(layer), nn::ShareTensors{});
    return nn::make<nn::LayerNorm>(dynamic_cast<nn::LayerNorm&>(layer), nn::ShareTensors{});
  }
  [[nodiscard]] nn::Param& weight(nn::Layer& layer) const {
    return groups ? dynamic_cast<nn::GroupNorm&>(layer).weight : dynamic_cast<nn::LayerNorm&>(layer).weight;
  }
  [[nodiscard]] nn::Param& bias(nn::Layer& layer) const {
    return groups ? dynamic_cast<nn::GroupNorm&>(layer).bias : dynamic_cast<nn::LayerNorm&>(layer).bias;
  }
  [[nodiscard]] Tensor function(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    return groups ? group_norm(x, 2, weight, bias) : layer_norm(x, {kWidth}, weight, bias);
  }
};

inline std::vector<Kind> kinds() {
  return {{"LPLayerNorm", false, false, true},
          {"LPLayerNorm with f32 parameters", false, false, false},
          {"LPGroupNorm", true, false, true},
          {"LPGroupNorm with f32 parameters", true, false, false},
          {"FusedLayerNorm", false, true, false}};
}

/// A batch of reproducible f32 values.
inline Tensor input(const Kind& kind, Device device, std::int64_t rows = 5) {
  Generator generator(11);
  return normal(0, 1, kind.groups ? Shape{rows, kWidth, 3} : Shape{rows, kWidth}, {}, generator).to(device);
}
/// A gradient for its result, of small integers.
inline Tensor upstream(const Kind& kind, Device device) {
  Generator generator(12);
  return round(uniform(-4, 4, input(kind, Device::cpu()).shape(), {}, generator)).to(device);
}

/// Backward from y with a given gradient.
inline void backward_of(const Tensor& y, const Tensor& gradient) {
  const std::vector<Tensor> outputs{y}, gradients{gradient};
  backward(outputs, gradients);
}

/// The largest difference, relative to the largest value.
inline double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.to_vector<double>(), right = b.to_vector<double>();
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
    scale = std::max(scale, std::abs(right[i]));
  }
  return left.size() == right.size() ? largest / scale : kInf;
}

}  // namespace mezzo::amp::testing
