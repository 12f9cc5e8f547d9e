// Angles of rotary embeddings and the distances of ALiBi, computed in f64 and rounded once.
#include "mezzo/nn/positions.h"

#include <cmath>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/core/value.h"
#include "mezzo/nn/layers/layer_support.h"
#include "mezzo/ops/ops.h"

namespace mezzo::nn {

RotaryEmbedding::RotaryEmbedding(std::int64_t dim, const RotaryEmbeddingOptions& options)
    : dim_(dim), options_(options) {
  constexpr std::string_view kName = "RotaryEmbedding";
  if (dim < 2 || dim % 2 != 0)
    throw ValueError(kName, "an even dim of at least 2", std::to_string(dim), "features are turned in pairs");
  if (!(options.base > 0 && std::isfinite(options.base))) {
    throw ValueError(kName, "a finite base above 0", Value(options.base).to_string(), "10000 is the paper's");
  }
}

void RotaryEmbedding::require_input(const Tensor& x) const {
  if (!x.defined()) throw ValueError(described(), "a tensor", "an undefined one", "pass queries or keys");
  if (!is_floating(x.dtype())) {
    throw DTypeError(described(), "a floating x", to_string(x.dtype()), "convert it with to()");
  }
  if (x.dim() >= 2 && x.shape().back() >= dim_) return;
  throw ShapeError(described(), "an x [.., L, D] with D of at least " + std::to_string(dim_),
                   to_string(x.shape()), "check the heads' size, or this layer's dim");
}

RotaryTables RotaryEmbedding::tables(const Tensor& positions, DType dtype) const {
  if (!positions.defined())
    throw ValueError(described(), "positions", "an undefined tensor", "pass arange(length), say");
  if (positions.dtype() == DType::boolean || !is_floating(dtype)) {
    throw DTypeError(described(), "positions that are numbers, and tables in a floating dtype",
                     to_string(positions.dtype()) + " and " + to_string(dtype), "pass integers, say");
  }
  const double step = -2 * std::log(options_.base) / static_cast<double>(dim_);
  const Tensor rates = exp(arange(dim_ / 2, {.dtype = DType::f64, .device = positions.device()}) * step);
  const Tensor angles = unsqueeze(positions.to(DType::f64), -1) * rates;
  return {cos(angles).to(dtype), sin(angles).to(dtype)};
}

Tensor RotaryEmbedding::forward(const Tensor& x, const Tensor& positions) {
  require_input(x);
  const auto [cosines, sines] = tables(positions, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  return apply_rotary(x, cosines, sines, options_.interleaved);
}

Tensor RotaryEmbedding::forward(const Tensor& x, std::int64_t offset) {
  require_input(x);
  const std::int64_t length = x.size(-2);
  if (offset > std::numeric_limits<std::int64_t>::max() - length) {
    throw ValueError(described(), "an offset that positions can be counted from", std::to_string(offset),
                     "it is the position of x's first step");
  }
  return forward(x, arange(offset, offset + length, 1, {.device = x.device()}));
}

std::string RotaryEmbedding::extra_repr() const {
  std::string text = std::to_string(dim_);
  if (options_.base != 10000) text += ", base=" + Value(options_.base).to_string();
  if (options_.interleaved) text += ", interleaved=true";
  return text;
}

namespace {

/// base^1, base^2, ... of a number of heads that is a power of 2.
void add_slopes(std::vector<double>& slopes, std::int64_t power, std::int64_t first, std::int64_t stride,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(first + i * stride) / static_cast<double>(power)));
}

}  // namespace

Tensor alibi_slopes(std::int64_t num_heads, const TensorOptions& options) {
  detail::at_least_one("alibi_slopes", "num_heads", num_heads);
  if (!is_floating(options.dtype))
    throw DTypeError("alibi_slopes", "a floating dtype", to_string(options.dtype), "slopes are fractions");
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 20;
  if (num_heads > kMostHeads) {
    throw ValueError("alibi_slopes", "a num_heads up to 2^20", std::to_string(num_heads), "check the model");
  }
  std::int64_t power = 1;
  while (power * 2 <= num_heads) power *= 2;
  std::vector<double> slopes;
  add_slopes(slopes, power, 1, 1, power);
  add_slopes(slopes, 2 * power, 1, 2, num_heads - power);
  return tensor(slopes, {num_heads},
                {.dtype = options.dtype, .device = options.device, .requires_grad = options.requires_grad});
}

Tensor alibi_bias(std::int64_t num_heads, std::int64_t queries, std::int64_t keys,
                  const AlibiOptions& options) {
  if (queries < 0 || keys < 0) {
    throw ValueError("alibi_bias", "numbers of queries and keys of at least 0",
                     std::to_string(queries) + " and " + std::to_string(keys), "they are lengths");
  }
  if (!is_floating(options.dtype))
    throw DTypeError("alibi_bias", "a floating dtype", to_string(options.dtype), "it is added to scores");
  const ValueOptions in_f64{.dtype = DType::f64, .device = options.device};
  const Tensor slopes = alibi_slopes(num_heads, {.dtype = DType::f64, .device = options.device});
  const Tensor at = unsqueeze(arange(keys - queries, keys, 1, in_f64), 1);
  const Tensor ahead = arange(keys, in_f64) - at;
  Tensor bias = neg(abs(ahead)) * reshape(slopes, {num_heads, 1, 1});
  if (options.is_causal) bias = where(gt(ahead, 0), -std::numeric_limits<double>::infinity(), bias);
  return bias.to(options.dtype);
}

}  // namespace mezzo::nn
