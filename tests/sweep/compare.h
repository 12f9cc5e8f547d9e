// Comparing results: bit for bit, or with what f64 gives within the table of tolerances. Each returns what
// differs first, or nothing.
#pragma once

#include <optional>
#include <string>

#include "sweep/case.h"
#include "sweep/tolerance.h"

namespace mezzo::sweep {

using Difference = std::optional<std::string>;

/// Same shape, dtype and bits (NaNs with their payload); both undefined is equal too.
[[nodiscard]] Difference bits_differ(const std::string& what, const Tensor& got, const Tensor& want);
/// The same for every output and gradient of two results.
[[nodiscard]] Difference bits_differ(const Result& got, const Result& want);

/// `got` is within allowed_error of `want`, which has the same shape; NaN where NaN, equal infinities.
/// Integers and bools must be the same. An undefined `want` or `got` stands for zeros. `ways`: how many of
/// the two were rounded, one when `want` is that of f64.
[[nodiscard]] Difference differs(const std::string& what, const Tensor& got, const Tensor& want,
                                 const Accuracy& accuracy, int ways = 1);

/// What differs first between the results of an op computed in two ways, each of which rounds; on two
/// devices, or on one.
[[nodiscard]] Difference ways_differ(const OpInfo& info, const Result& got, const Result& want,
                                     const Tensors& inputs, bool two_devices = false);

/// Whether a result shows the memory of an input.
[[nodiscard]] bool is_view(const Tensors& inputs, const Tensors& outputs);

/// Largest finite magnitude among tensors, at least 1; undefined and non-floating ones take no part.
[[nodiscard]] double magnitude_of(const Tensors& tensors);
/// Product of the largest magnitudes of each: a bound for products of inputs.
[[nodiscard]] double magnitude_of_products(const Tensors& tensors);

/// Elements as numbers, row-major.
[[nodiscard]] std::vector<double> numbers(const Tensor& x);

}  // namespace mezzo::sweep
