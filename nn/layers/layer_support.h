// Checks that the layers' constructors and forwards share. Internal to nn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/core/random.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn::detail {

/// `size`, which a layer calls `what`. Throws ValueError in the layer's name when it is below 1.
std::int64_t at_least_one(std::string_view layer, std::string_view what, std::int64_t size);

/// `count`, which says how many layers a module makes. Throws ValueError in the module's name when it is
/// below 1 or above 65536: more is a mistake, and would fill the memory before it is noticed.
std::int64_t number_of_layers(std::string_view module, std::int64_t count);

/// Throws ShapeError, naming the layer's path, unless the last dim of x is of `size`, which the layer calls
/// `what`. An undefined x is left to the op.
void require_last(const Module& layer, const Tensor& x, std::int64_t size, std::string_view what);

/// An unfilled parameter of the dtype and device of a layer's options or, unless `wanted`, an undefined
/// tensor.
template <class Options>
[[nodiscard]] Tensor unfilled(bool wanted, const Shape& shape, const Options& options) {
  return wanted ? empty(shape, {.dtype = options.dtype, .device = options.device}) : Tensor();
}

/// Fills a weight, then its bias where there is one, with uniform values within 1 / sqrt(fan) of 0.
void fill_uniform(const Param& weight, const Param& bias, std::int64_t fan, Generator& generator);

/// The generator of a layer's options, nullptr being the default one.
[[nodiscard]] inline Generator& or_default(Generator* generator) {
  return generator != nullptr ? *generator : default_generator();
}

/// "true" or "false".
[[nodiscard]] inline std::string bool_text(bool on) { return on ? "true" : "false"; }

}  // namespace mezzo::nn::detail
