// What the optimizer tests share: exact comparison, parameters with given gradients, and state as data.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "mezzo/autograd/grad_mode.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/ops.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::optim {

/// The elements of a tensor, bit by bit: NaN equals itself, 0 differs from -0. Widening is exact.
inline std::vector<std::uint64_t> bits(const Tensor& tensor) {
  std::vector<std::uint64_t> result;
  for (const double value : tensor.to_vector<double>()) result.push_back(std::bit_cast<std::uint64_t>(value));
  return result;
}

/// The state of an optimizer as plain data. What a first step would make anyway (zeros) is the same as none.
inline std::map<std::string, std::vector<std::uint64_t>> state_bits(const Optimizer& optimizer) {
  std::map<std::string, std::vector<std::uint64_t>> result;
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) {
    const std::vector<std::uint64_t> values = bits(tensor);
    if (values != std::vector<std::uint64_t>(values.size(), 0)) result[key] = values;
  }
  return result;
}

/// One tensor of a state dict; undefined when it is not there.
inline Tensor state_of(const Optimizer& optimizer, const std::string& key) {
  for (const auto& [name, tensor] : optimizer.state_dict().tensors) {
    if (name == key) return tensor;
  }
  return {};
}

/// A state dict that shares no memory with its optimizer, as after a round through a file.
inline OptimizerState saved(const Optimizer& optimizer) {
  OptimizerState state = optimizer.state_dict();
  for (auto& [key, tensor] : state.tensors) tensor = tensor.clone();
  return state;
}

/// `count` reproducible values in [-1, 1].
inline std::vector<double> values_of(std::uint64_t seed, std::size_t count) {
  Generator generator(seed);
  return uniform(-1, 1, {static_cast<std::int64_t>(count)}, {.dtype = DType::f64}, generator)
      .to_vector<double>();
}

/// A parameter of these values.
inline Tensor parameter_of(const std::vector<double>& values, DType dtype = DType::f64) {
  return tensor(values, {.dtype = dtype, .requires_grad = true});
}

}  // namespace mezzo::optim
